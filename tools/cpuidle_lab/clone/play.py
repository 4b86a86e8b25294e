# SPDX-License-Identifier: GPL-2.0
"""Clones in the lab: what the guest needs, and the phase of a session that plays one."""

import shlex
from dataclasses import dataclass

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.clone.program import Program
from cpuidle_lab.lab import programs
from cpuidle_lab.lab.session import PhasePlan


@dataclass(frozen=True)
class ClonePlan(PhasePlan):
    """A phase that plays a clone; the player writes the markers, so its start is no part of it.

    The player sets the governor, too, which learns nothing from that start, and tells the phase.

    Attributes:
        shift_ns: how much later than recorded it begins after a tick.
    """

    shift_ns: int = 0

    def begins(self, governor: str) -> list[str]:
        """Return no line: the player lets the governor begin."""
        del governor
        return []

    def calls(self) -> list[str]:
        """Return the lines that run the player."""
        governor, _, _ = self.governor.partition(":")
        mark = f"phase governor={governor} workload={self.workload}"
        mark += "" if self.request_us is None else f" request_us={self.request_us}"
        output = shlex.quote(f"/results/{governor}/{self.workload}")
        return [
            f"mkdir -p /results/{governor}",
            f"player {self.command} {self.shift_ns} {shlex.quote(mark)} {governor} "
            f"{shlex.quote(f'{governor}: {self.workload}')} >{output} 2>&1 || "
            f'fail "$(tail -n 1 {output})"',
        ]


def plan(program: Program, name: str, governor: str, **facts: object) -> ClonePlan:
    """Return the phase that plays a clone.

    Args:
        program: the clone.
        name: of its file in the guest.
        governor: as of PhasePlan.
        facts: further ones of ClonePlan; `workload` is the program's unless given.
    """
    known = {"workload": program.name} | facts
    return ClonePlan(governor, command=f"/lab/{name}", **known)  # type: ignore[arg-type]


def files(clones: dict[str, Program]) -> dict[str, bytes]:
    """Return the files that the guest needs, by path: the clones, and their player.

    Args:
        clones: by the names of their files.

    Raises:
        UserError: the player cannot be compiled.
    """
    texts = {f"lab/{name}": clone.text().encode() for name, clone in clones.items()}
    return texts | programs.file(programs.PLAYER)


def check_time(*, real_time: bool) -> None:
    """Refuse a run without virtual time: work is counted in instructions.

    Raises:
        UserError: it has none.
    """
    if real_time:
        raise UserError(
            "a clone needs virtual time, where an instruction takes 1 ns: leave out --real-time; "
            "6.1 has it with --cpus 1 alone",
            USAGE,
        )
