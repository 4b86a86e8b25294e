# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment gate`: idle gating's tables of 2020 and 2021, and targets of our own."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.lab import LabRun, corpus
from cpuidle_lab.lab.keys import machine_parts
from experiments import energy
from experiments.boots import figures
from experiments.experiment import (
    NOT_BOOTED,
    ORIGINAL,
    QUICK,
    Findings,
    Request,
    Row,
    checked,
    wanted,
)
from experiments.gate import decisions, guest, judgement, show, switches, wakes
from experiments.gate.guest import Sizes
from experiments.gate.show import DECISIONS, PARTS, PROGRAMS, SWITCHES, TARGETS
from experiments.memo import Memo

# All that plans the boots, runs in them and reads their results.
CODE = [
    *(Path(str(one.__file__)) for one in (decisions, energy, guest, judgement, switches, wakes)),
    *(TOP / one.source for one in guest.PROGRAMS),
]

# Beside the RFC there are several seeds, so one machine and short runs. Polling costs most: a
# virtual second takes 18 of the host's without idle states, and 30 with the gate of the RFC.
USUALLY = replace(guest.FULL, wake_s=1, server_s=3)
QUICKLY = replace(guest.QUICK, wake_s=1, server_s=2)

# Seconds of virtual time of each case of a decision's cost.
DECISIONS_S = 1


def _boots(request: Request) -> dict[str, list[tuple[str, Sizes]]]:
    """Return machine and sizes of each boot with programs, by part."""
    sizes = {QUICK: QUICKLY, ORIGINAL: guest.FULL}.get(request.scale, USUALLY)
    machines = guest.MACHINES if request.scale == ORIGINAL else guest.MACHINES[:1]
    seeds = range(guest.SEED, guest.SEED + request.seeds)
    judged = guest.QUICK if request.scale == QUICK else guest.JUDGED
    return {
        PROGRAMS: [(name, replace(sizes, seed=seed)) for name in machines for seed in seeds],
        TARGETS: [(name, judged) for name in guest.MACHINES],
    }


def _code() -> list[bytes]:
    return [path.read_bytes() for path in CODE]


def _key(what: object) -> str:
    return digest(["gate", repr(what), *machine_parts(), *_code()])


def _run(machine: str, sizes: Sizes) -> dict[str, Any]:
    with scratch(TOP / "build") as folder:
        files = guest.run(machine, sizes, folder / "results")
        return judgement.machine_figures(machine, files, sizes)


class Gate:
    """Latency hints: menu, no idle states, the gate as in the RFC, and the gate as it is here."""

    name = "gate"
    title = "Idle gating"
    claim = (
        "On POWER9 idle gating takes schbench's p99 down by 94 to 98 % for 17 to 20 % more power; "
        "without idle states it is 95 to 98 % for 30 %. With one client of pgbench it saves 10 % "
        "of the extra power, with 44 clients 85 %."
    )
    source = (
        '"Idle-gating for latency-sensitive workloads", P. Shah, 2021; slides "Latency_nice", '
        "P. Shah, C. Hyser, D. Eggemann, 2020"
    )
    question = Path(__file__).with_name("question.md").read_text(encoding="utf-8").strip()
    in_lab = True
    parts = PARTS

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: without --lab the rows say what is missing."""
        return []

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Boot once for each machine and seed, and once for the costs of each kind."""
        work: dict[object, Callable[[], Any]] = {
            DECISIONS: partial(decisions.measure, DECISIONS_S),
            SWITCHES: switches.measure,
        }
        needs: dict[str, list[Any]] = {DECISIONS: [DECISIONS], SWITCHES: [SWITCHES]}
        for part, boots in _boots(request).items():
            work |= {boot: partial(_run, *boot) for boot in boots}
            needs[part] = [*boots, *([DECISIONS] if part == TARGETS else ())]
        parts = wanted(self, request)
        plan = list(dict.fromkeys(one for part in parts for one in needs[part]))
        jobs = [partial(checked, partial(_key, one), work[one]) for one in plan]
        told = figures(jobs, [LabRun.kernel], request.lab, memo, meter, "Booting for the gate")
        result = Findings(sources={"modules": corpus.modules_hash(), "code": digest(_code())})
        result.same, result.differs, result.meaning = _SAME, _DIFFERS, _MEANING
        known = dict(zip(plan, told, strict=True))
        for part in parts:
            found = [known[one] for one in needs[part]]
            if all(found):
                SHOWN[part](result, found)
            else:
                result.rows.append(Row(PARTS[part], note=NOT_BOOTED))
        return result


SHOWN = {
    PROGRAMS: show.programs,
    TARGETS: show.targets,
    DECISIONS: show.decisions,
    SWITCHES: show.switches,
}

_SAME = """\
Without idle states the power rises most. The gate as in the RFC lies between that and menu. With
one worker both take the latency down by nearly all of it."""
_DIFFERS = """\
Theirs are watts of a machine with two sockets, with a constant part that no idle state changes;
`power` is that of the emulated CPUs alone, so the same change is a larger part. `machine` has the
power of their domains, too, of the trees power9-smt4 and xeon. End to end, virtual time
holds the turns of the emulated CPUs. The latency of wakebench is p99, of pgbench the mean, as
theirs. wakebench has schbench's pattern, with fewer threads.

With 44 clients the gate as in the RFC has no exit latency. Yet its mean latency is above that of
menu in three of five seeds, where theirs fell by 41 %. The cause is the lab. Where deeper states
are enabled, the kernel's polling state gives up after 10 us, and the gate decides again. So the
CPUs are busy with decisions for 42 to 53 % of the time, and for 7 to 9 % without idle states. In
virtual time busy CPUs slow each other down: they share one clock of instructions. A transaction
takes 4.6 times as long. Shorter turns of the CPUs do not help: in runs
of 6 s the mean was 8.7 ms with turns of 100 us, and 8.5 ms with 10 us. CPUs of a real machine
decide beside each other.

The gate with a limit of 10 us has a fifth of that mean for 37 % of that power. In three of five
seeds the p99 of its exit latency is 10 us, in the others 200 us and 10 ms. A run of 3 s completes
13 to 27 transactions with 44 clients, and 3 to 12 under the gate of the RFC. So one late wake-up
makes a p99. The start of the 44 servers is a part of the 3 s, and of the power; in the part
`targets` it is a part of 20 s."""
_MEANING = """\
Compare the order of the conditions. A hint with a latency (`latnice -l`) keeps the target for a
part of the energy of polling. Where the maximum is missed, a wake-up came to a CPU on which no
hinted task had run lately, so that it had no limit. A fixed linger misses where it is shorter than
the sleeps; a linger that follows the sleeps costs energy. Where the energy is missed at half the
busy power, all CPUs stay in the deepest state that the limit allows. That state's power stays as it
is, and is then a larger part of the cost of polling.

**A hint keeps a package awake.** Of the CPUs' extra power the gate takes 8 to 25 %. With the tree
`xeon` (on skx) it takes 55 to 60 % of the machine's: a package sleeps while all of its CPUs are in
C6, and each limit of 10 us forbids that. So the targets of energy hold for the CPUs, and are missed
by that machine. The cores of `power9-smt4` have little to lose, and they hold there.

End to end, p99 of pgbench is an order of
magnitude, no more: among its transactions is the first query of each client, which fills the caches
of its server process."""

EXPERIMENT = Gate()
