# SPDX-License-Identifier: GPL-2.0
"""Parts of a soak: operations drawn from a seed, and the governor of each segment."""

from random import Random

from tests.campaigns.storm.operations import Operation

OURS = ("teo_ng", "menu_ng", "wteo", "gate")
KERNELS = ("menu", "ladder")
HINTS = ("-20", "-15", "-10", "-3", "7", "19", "133000ns", "5000ns")
TUNES = (
    *("menu_ng history_size 32", "menu_ng history_size 128", "menu_ng stddev_us 100"),
    *("menu_ng decay 3", "menu_ng min_share 50", "wteo learning_rate 100", "wteo half_life_ms 0"),
    *("wteo learning_rate 1", "wteo half_life_ms 100"),
    *("wteo half_life_ms 60000", "wteo latency_bias 500"),
    *("gate mode poll", "gate mode cap", "gate linger_ms 5", "gate linger_max_ms 0"),
)
PARAMETERS = (
    "wteo learning_rate=40,latency_bias=17",
    *("menu_ng history_size=16", "gate linger_ms=100"),
)
# Governor and base that are current most of the time, segment after segment.
HOMES = (
    ("wteo", "menu"),
    ("menu_ng", "menu"),
    ("teo_ng", "menu"),
    ("gate", "menu"),
    ("gate", "wteo"),
    ("gate", "teo_ng"),
)
CPUS = 2  # of the machine
LENGTH = 3000  # of a plan, which begins again at its end


OPERATIONS = (
    Operation("control", 12, lambda r, _: f"{r.randint(1, 4)}"),
    Operation("hackbench", 6, lambda r, _: f"{r.choice((20, 100, 400))}"),
    Operation("timers", 5, lambda r, _: f"{r.choice((200, 1000, 3000))} {r.randint(50, 2000)}"),
    Operation("switch", 3, lambda r, _: f"{r.randint(200, 5000)}"),
    Operation("sleep", 3, lambda r, _: f"{r.randint(1, 3)}"),
    Operation("spin", 2, lambda r, _: f"{r.randint(1, 2)} 1"),
    Operation(
        "periodic", 5, lambda r, _: f"{r.choice((470, 1700, 3000, 7100, 23000))} {r.randint(2, 30)}"
    ),
    Operation("pipes", 4, lambda r, _: f"{r.randint(100, 2000)}"),
    Operation("files", 4, lambda r, _: f"{r.randint(10, 2000)}"),
    Operation("governor", 4, lambda r, _: r.choice((*OURS, *KERNELS))),
    Operation("home", 3, lambda *_: ""),
    Operation("base", 2, lambda r, _: r.choice((*OURS[:-1], *KERNELS))),
    Operation("tune", 4, lambda r, _: r.choice(TUNES)),
    Operation("poke", 2, lambda r, _: f"{r.choice(OURS)} {r.choice(('reset', 'defaults'))}"),
    Operation("parameter", 1, lambda r, _: r.choice(PARAMETERS)),
    Operation("shadow", 3, lambda r, _: " ".join(r.sample(OURS[:-1], r.randint(0, 2))) or "none"),
    Operation("trace", 1, lambda r, _: f"{r.randint(1, 5)}"),
    Operation("swap", 5, lambda r, _: f"{r.randrange(8)} {r.choice(HINTS)}"),
    Operation("hint", 4, lambda r, _: f"{r.randrange(8)} {r.choice(HINTS)}"),
    Operation("group", 3, lambda r, _: f"{r.randrange(8)} {r.choice(HINTS)}"),
    Operation("latnice", 2, lambda r, _: f"{r.randint(-20, 19)}"),
    Operation("qos", 1, lambda r, _: f"{r.randrange(2)} {r.choice((1, 9, 150))}"),
    Operation("disable", 1, lambda r, _: f"{r.randrange(2)} {r.randint(1, 3)}"),
)
# To be busy for long without many instructions of other kinds, which take the host longer.
SPIN = Operation("spin", 40, lambda r, _: f"2 {r.randint(2, 8)}")


def _line(operation: Operation, rng: Random) -> str:
    return f"{operation.name} {operation.arguments(rng, CPUS)}".strip()


def warm_up(seed: int) -> list[str]:
    """Return each operation once: what the first use makes is there before the first sample."""
    rng = Random(f"warm-up {seed}")
    return [_line(operation, rng) for operation in OPERATIONS]


def draw(seed: int, segment: int, loaded: bool, gated: bool) -> list[str]:
    """Return the operations of a segment, in order.

    Args:
        seed: of the soak.
        segment: its number.
        loaded: draw mostly what keeps CPUs busy.
        gated: the gate decides most of the time. Then no hint makes a CPU poll: that enters
            a state 50000 times a second, and would use up the load for nothing else.
    """
    rng = Random(f"{seed} {segment}")
    operations = (*OPERATIONS, SPIN) if loaded else OPERATIONS
    weights = [operation.weight for operation in operations]
    lines = [_line(one, rng) for one in rng.choices(operations, weights, k=LENGTH)]
    if gated:
        lines = [line.replace(" -20", " -15").replace("mode poll", "mode cap") for line in lines]
    return lines
