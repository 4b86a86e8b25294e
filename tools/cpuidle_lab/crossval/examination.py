# SPDX-License-Identifier: GPL-2.0
"""Examination of a recording: its gaps, and its decisions and energy beside those of replay."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cpuidle_lab.base.findings import OK, WARN, Finding, lines
from cpuidle_lab.crossval import targets, trust
from cpuidle_lab.recording.columns import CPU_IDLE, INTERRUPTS, SYNTH, TRACE, Recording
from cpuidle_lab.recording.stock import omissions, stock_line
from cpuidle_lab.replay.fidelity import Fidelity, apart, fidelity_of
from cpuidle_lab.replay.policies import recorded_policies
from cpuidle_lab.view.terminal import meter

_KINDS = {
    TRACE: Finding("events", OK, "decisions of the module"),
    CPU_IDLE: Finding(
        "events",
        WARN,
        "power:cpu_idle events alone",
        "capture --stock records the inputs of governors, too",
    ),
    INTERRUPTS: Finding(
        "events",
        WARN,
        "power:cpu_idle events with interrupts, which leave sleep lengths open",
        "capture --stock records the inputs of governors, too",
    ),
    SYNTH: Finding("events", OK, "a synthetic stream"),
}


@dataclass(frozen=True)
class Examination:
    """The result for one recording.

    Attributes:
        findings: kind and gaps of the recording.
        decisions: those of each governor, made again.
        not_checked: reason why decisions were not made again, "" if all governors' were.
        energy: of each governor, replayed on its own recording.
        not_compared: reason why no energy was compared, "" if it was.
    """

    findings: list[Finding]
    decisions: list[Fidelity]
    not_checked: str
    energy: list[trust.Trust]
    not_compared: str

    @property
    def passed(self) -> bool:
        """True if replay decides as recorded, and comes to the recorded energy where compared."""
        same = all(one.identical == one.compared for one in self.decisions)
        return not self.not_checked and same and not any(each.doubtful for each in self.energy)

    def text(self) -> str:
        """Return the result for people."""
        said = [line for one in self.decisions for line in one.lines()]
        said += [each.line() for each in self.energy]
        if self.not_compared not in ("", self.not_checked):
            said.append(f"energy was not compared: {self.not_compared}")
        said += [f"cannot be checked: {self.not_checked}"] if self.not_checked else []
        return "\n".join([*lines(self.findings), *said])

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can have it."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "decisions": [one.as_json() for one in self.decisions],
            "not_checked": self.not_checked,
            "energy": [vars(each) | {"doubtful": each.doubtful} for each in self.energy],
            "energy_not_compared": self.not_compared,
        }


def examine(
    recording: Recording, path: Path, names: Sequence[str], jobs: int | None
) -> Examination:
    """Examine a recording of any kind.

    Args:
        recording: its columns.
        path: as the user knows it.
        names: governors whose decisions are made again; none: all that were recorded.
        jobs: threads; None is one for each processor.

    Raises:
        UserError: it contradicts itself.
    """
    decisions: list[Fidelity] = []
    why = _without_decisions(recording)
    if not why:
        names = names or recorded_policies(recording)
        with meter("Replaying", len(names)) as count:
            for name in names:
                told = fidelity_of, recording.path, name, jobs
                decisions.append(apart(path, *told))
                count(1)
        bare = [one.governor for one in decisions if not one.compared]
        if bare or not decisions:
            why = f"no decision of {', '.join(bare) or 'a governor'} follows a recorded state"
    known = recording.kind == TRACE
    energy, not_compared = trust.trust(recording, path) if known else ([], why)
    return Examination(_findings(recording), decisions, why, energy, not_compared)


def _without_decisions(recording: Recording) -> str:
    """Return the reason why a recording has no decisions that can be made again, or ""."""
    if recording.kind != TRACE:
        return f"the recording is {_KINDS[recording.kind].found}, without decisions"
    if recording.stock is not None:
        return "it was recorded without the module, which alone records the state of a governor"
    return ""


def _findings(recording: Recording) -> list[Finding]:
    stock = recording.stock or {}
    by_probes = recording.kind == TRACE and stock
    kind = Finding("events", OK, stock_line(stock)) if by_probes else _KINDS[recording.kind]
    found = [kind, *(Finding("events", WARN, line) for line in omissions(stock))]
    lost = recording.integrity
    found.append(
        Finding("complete", OK, f"{lost.events:,} events, none lost")
        if lost.complete
        else Finding("complete", WARN, "events were lost", "record into a larger buffer (-b)")
    )
    share = trust.overslept_share(recording)
    # More says that the clock or the emulator is at fault.
    late = share > 100 * targets.OVERSLEPT_SHARE
    remedy = "these intervals have no regret; look for what delays timers" if late else ""
    text = f"{share:.3f} % of the idle time"
    found.append(Finding("overslept", WARN if late else OK, text, remedy))
    held = trust.held_share(recording)
    text = f"the tick had to go on at the beginning of {held:.1f} % of the intervals"
    return [*found, Finding("tick", OK, text)]
