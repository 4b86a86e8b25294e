# SPDX-License-Identifier: GPL-2.0
"""Parts of a storm: rounds of random operations, the same for the same seed."""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from random import Random

OURS = ("teo_ng", "menu_ng", "wteo", "gate")
KERNELS = ("menu", "teo", "ladder", "haltpoll")
MACHINES = ("skx", "icx", "spr", "gnr", "skl", "power9")
# Domains of the emulated machine; the last needs a CPU that is not there.
_NEEDS = "C6~stop4"
DOMAINS = (
    f"package@all:60000/PC6:50:100:1000:25000:{_NEEDS}",
    f"m@every2:1200:kernel/MC6:10:20:1000:400:{_NEEDS}+package@all:60000:demotes"
    "/PC6:50:400:3000:25000:MC6",
    f"a@0-1:900:demotes/A:1:1:2000:1:{_NEEDS}+b@2-99:900/B:1:1:2000:1:{_NEEDS}",
)
EVENTS = ("cil_decision/enable", "cil_outcome/enable", "cil_hint/enable", "enable")
HINTS = ("none", "-20", "-10", "-3", "0", "7", "19", "20", "-21", "5000ns", "133000ns", "0ns")
# Some are right for one tunable or the other, some for none.
ATTACKS = ("threads", "probes", "namespaces", "groups", "limits", "users", "locks")
VALUES = (
    *("0", "1", "2", "7", "8", "17", "32", "100", "500", "65536", "4294967295"),
    *("4294967296", "-1", "x", "1x", "off", "sample", "expected", "previous", "cap", "poll"),
)
PARAMETERS = (
    "wteo learning_rate=100,latency_bias=500",
    "wteo half_life_ms=100,latency_bias=17",
    "wteo learning_rate=0",
    "wteo nonsense=1",
    "menu_ng history_size=128",
    "menu_ng history_size=8,stddev_us=2000",
    "gate base=teo_ng,linger_ms=5",
    "gate base=menu,linger_ms=0",
    "gate base=gate",
)
MAPS = (
    " ".join(str(5 * n) for n in range(20)),
    " ".join(str(100 + n) for n in range(20)),
    " ".join(str(20 - n) for n in range(20)),
    "1 2 3",
)


@dataclass(frozen=True)
class Operation:
    """Something to do to the modules or to the machine.

    Attributes:
        name: of the guest's function, without "op_".
        weight: how often it is drawn, beside the others.
        arguments: draws its arguments.
    """

    name: str
    weight: int
    arguments: Callable[[Random, int], str]


def _hint(rng: Random) -> str:
    return rng.choice(HINTS)


def _mode(rng: Random) -> str:
    """Return how the machine differs from one that does as it is told."""
    return rng.choice(("", "poll=none", "poll=silent", "reject=7", "demote=3", "reject=2 demote=3"))


def _machine(rng: Random) -> str:
    """Return parameters of the emulator: its machine, and domains as often as none."""
    domains = f" domains={rng.choice(DOMAINS)}" if rng.random() < 0.5 else ""
    return f"{rng.choice(MACHINES)} {_mode(rng)}{domains}"


OPERATIONS = (
    Operation("lab", 4, lambda r, _: f"{r.choice((0, 1, 50))} gate=linger_ms={r.choice((0, 9))}"),
    Operation("emul", 4, lambda r, _: f"{r.choice((0, 1, 50))} {_machine(r)}"),
    Operation("table", 4, lambda r, _: f"{r.choice((1, 3, 10))}"),
    Operation("nodriver", 1, lambda r, _: r.choice(OURS)),
    Operation("busy", 1, lambda r, _: r.choice(OURS)),
    Operation("governor", 10, lambda r, _: r.choice(OURS * 3 + KERNELS + ("nosuch",))),
    Operation("base", 6, lambda r, _: r.choice(OURS + KERNELS + ("nosuch",))),
    Operation("tune", 10, lambda r, _: f"{r.randrange(1000)} {r.choice(VALUES)}"),
    Operation("parameter", 3, lambda r, _: r.choice(PARAMETERS)),
    Operation("poke", 4, lambda r, _: f"{r.choice(OURS)} {r.choice(('reset', 'defaults'))}"),
    Operation("map", 2, lambda r, _: r.choice(MAPS)),
    Operation("shadow", 5, lambda r, _: " ".join(r.sample((*OURS[:-1], "none"), r.randint(1, 3)))),
    Operation("look", 4, lambda r, _: ""),
    Operation("checkpoint", 2, lambda r, _: ""),
    Operation("hint", 8, lambda r, _: f"{r.randrange(100)} {_hint(r)}"),
    Operation("thread", 2, lambda r, _: f"{r.randrange(100)} {_hint(r)}"),
    Operation(
        "raw", 3, lambda r, _: f"{r.randrange(100)} {r.choice(('-', '0', '50', '2000', 'x'))}"
    ),
    Operation("run", 3, lambda r, _: f"{_hint(r)} {r.randint(1, 20)}"),
    Operation("crowd", 2, lambda r, _: f"{_hint(r)} {r.randint(2, 60)}"),
    Operation("race", 2, lambda r, _: f"{r.randint(5, 40)}"),
    Operation("exec", 1, lambda r, _: r.choice(("leader", "other"))),
    Operation("threads", 2, lambda r, _: f"{r.randint(2, 16)} {_hint(r)}"),
    Operation("fuzz", 2, lambda r, _: f"{r.randrange(1 << 30)} {r.randint(10, 300)}"),
    Operation("attack", 5, lambda r, _: f"{r.choice(ATTACKS)} {r.randrange(8)} {_hint(r)}"),
    Operation("latnice", 2, lambda r, _: f"{r.randint(-20, 19)}"),
    Operation("group", 4, lambda r, _: f"{r.randrange(3)} {_hint(r)}"),
    Operation("ungroup", 2, lambda r, _: f"{r.randrange(3)}"),
    Operation("join", 4, lambda r, _: f"{r.randrange(3)} {r.randrange(100)}"),
    Operation("cpu", 4, lambda r, cpus: f"{r.randrange(1, cpus)} {r.choice((0, 5, 100))}"),
    Operation(
        "qos", 3, lambda r, cpus: f"{r.randrange(cpus)} {r.choice(('0', 'n/a', '9', '150'))}"
    ),
    Operation(
        "disable", 3, lambda r, cpus: f"{r.randrange(cpus)} {r.randrange(5)} {r.choice('001')}"
    ),
    Operation("trace", 5, lambda r, _: f"{r.choice(EVENTS)} {r.choice((1, 20, 200))}"),
    Operation("functions", 2, lambda r, _: f"{r.choice((0, 20, 200))}"),
    Operation("suspend", 1, lambda r, _: ""),
    Operation("evacuate", 4, lambda r, _: f"{r.choice((0, 1, 25, 50, 75, 99, 100, 100, 101))}"),
    Operation("lease", 2, lambda r, cpus: f"{r.randrange(cpus)} {r.choice((0, 5, 100))}"),
    Operation("burst", 3, lambda r, _: f"{r.randint(1, 40)}"),
)

# Programs in BPF, in kernels that take them.
PROGRAMS = (*("teo_ng", "menu_ng", "wteo") * 2, "loops", "version")
LOADER_ENDS = ("ends", "killed", "killed", "pinned", "killed-early")
PROGRAM_OPERATIONS = (
    Operation(
        "program",
        24,
        lambda r, _: (
            f"{r.choice(PROGRAMS)} {r.choice(PROGRAMS)} {r.choice(LOADER_ENDS)} "
            f"{r.choice((0, 20, 500, 2000))}"
        ),
    ),
    Operation("governor", 16, lambda r, _: "bpf"),
    Operation("base", 8, lambda r, _: "bpf"),
    Operation("shadow", 8, lambda r, _: " ".join(r.sample((*OURS[:-1], "bpf", "bpf"), 2))),
    Operation(
        "parameter", 6, lambda r, _: f"bpf budget={r.choice((16, 1000))},t0={r.choice(VALUES)}"
    ),
    Operation("program_look", 6, lambda r, _: ""),
)


NAMES = tuple(dict.fromkeys(one.name for one in OPERATIONS + PROGRAM_OPERATIONS))


def rounds(
    seed: int, count: int, cpus: int, programs: bool = False, only: Container[str] = NAMES
) -> Iterator[tuple[str, ...]]:
    """Yield the operations of each round, one to four that happen at once.

    Args:
        seed: of all that is drawn; a longer storm begins like a shorter one.
        count: number of rounds.
        cpus: of the machine; at least 2.
        programs: draw those of programs in BPF, too.
        only: names of the operations to draw from; at least one of them.
    """
    rng = Random(seed)
    known = OPERATIONS + (PROGRAM_OPERATIONS if programs else ())
    operations = [operation for operation in known if operation.name in only]
    weights = [operation.weight for operation in operations]
    for _ in range(count):
        drawn = rng.choices(operations, weights, k=rng.randint(1, 4))
        yield tuple(f"{one.name} {one.arguments(rng, cpus)}".strip() for one in drawn)
