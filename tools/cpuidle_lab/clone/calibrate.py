# SPDX-License-Identifier: GPL-2.0
"""The player's own cost, measured and taken out of a clone's work.

A piece of work lies between two events of a task. The kernel and the player take time in it, too:
to get up, to post, to fall asleep. That time depends on the two events, so it is measured for each
pair of them: a program with pieces of known length is played and rebuilt from its recording.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cpuidle_lab.clone.program import Kind, Program, Step, Task

# Kinds of events around a piece of work: sleep or time, post, wait.
_LETTERS = {
    Kind.SLEEP: "S",
    Kind.UNTIL: "S",
    Kind.END: "S",
    Kind.REAP: "W",
    Kind.FORK: "P",
    Kind.POST: "P",
    Kind.WAIT: "W",
    Kind.OPEN: "P",
    Kind.PASS: "W",
    Kind.READ: "R",
    Kind.WRITE: "R",
    Kind.ON: "E",
    Kind.AFTER: "E",
}
# A fork, and the end of a process, cost the same after each kind. The birth of a process that was
# forked costs the same in front of each kind.
_FORK, _EXIT, _BIRTH = "SF", "SX", "BS"
PAIRS = (*(a + b for a in "SPW" for b in "SPW"), _FORK, _EXIT, _BIRTH)

# By pair of events; by number of a task and pair, of all such pieces or of each one. All ns.
Costs = Mapping[str, float]
# Recorded lengths of pieces, and those of the clone, ns.
_Lengths = tuple[list[int], list[int]]
OwnCosts = Mapping[tuple[int, str], float | Sequence[float]]

# Kinds that end no piece.
_WITHIN = frozenset({Kind.RUN, Kind.SLACK, Kind.RCU})

PIECE_NS, LONG_PIECE_NS, _ROUNDS = 30_000, 1_000_000, 30
_LENGTHS_NS = dict.fromkeys((_FORK, _EXIT, _BIRTH), LONG_PIECE_NS)
# Two pieces that were not parted are longer by this factor.
_ONE_PIECE = 1.5

# So much work too little is taken from the pieces that follow.
_OWED_MOST_NS = 3_000
# Fewer pieces of a pair have no usual length, so each is corrected alone.
_ENOUGH = 20
# The player's time to queue work of RCU once: of 20 and 100 in a row, on 6.12. A first run whose
# softirqs come late shows none of that work, so it doubles that at most.
QUEUE_NS = 1490
_MORE_MOST = 2.0


def probe() -> Program:
    """Return the program that has all pairs, each piece of the same length.

    A post comes when its target sleeps: a wait that takes a post at once ends no piece.
    """

    def sleep(us: int) -> Step:
        return Step(Kind.SLEEP, 1000 * us)

    def post(target: int) -> Step:
        return Step(Kind.POST, target)

    wait, run = Step(Kind.WAIT), Step(Kind.RUN, PIECE_NS)
    rounds = {
        "one": (sleep(3000), sleep(3000), post(1), post(2), sleep(2000), post(1), wait, wait,
                sleep(1000), post(1), wait, sleep(1000), wait),
        "other": (wait, wait, sleep(500), post(0), sleep(500), post(0), wait, post(0),
                  sleep(3000), post(0)),
        "third": (wait,),
    }  # fmt: skip
    tasks = [
        Task(name, cpu=place % 2, steps=[
            Step(Kind.UNTIL), *([one for step in steps for one in (step, run)] * _ROUNDS),
        ])
        for place, (name, steps) in enumerate(rounds.items())
    ]  # fmt: skip
    tasks[0].steps.append(Step(Kind.END))
    children = range(len(tasks) + 1, len(tasks) + 1 + _ROUNDS)
    long = Step(Kind.RUN, LONG_PIECE_NS)
    forks = [(long, Step(Kind.FORK, child), run, Step(Kind.REAP, child)) for child in children]
    tasks.append(Task("forks", steps=[Step(Kind.UNTIL), *(one for four in forks for one in four)]))
    life = [long, sleep(1000), long, Step(Kind.EXIT)]
    tasks += [Task("exits", steps=[*life], process=True) for _ in children]
    return Program("calibration", "menu", _ROUNDS * 20_000_000, 0, tasks)


def _pairs(task: Task) -> Iterator[tuple[list[int], str]]:
    """Yield the places of the parts of each piece of work, and the piece's pair of events."""
    # A process that another task forks has work first.
    born = task.process and bool(task.steps) and task.steps[0].kind is Kind.RUN
    before, parts = "B" if born else "S", list[int]()
    for place, step in enumerate([*task.steps, Step(Kind.END)]):
        if step.kind is Kind.RUN:
            parts.append(place)
        if step.kind in _WITHIN:
            continue
        if parts:
            usual = before + _LETTERS.get(step.kind, "S")
            alone = {Kind.FORK: _FORK, Kind.EXIT: _EXIT if task.process else usual}
            pair = alone.get(step.kind, usual)
            yield parts, "B" + pair[1] if before == "B" else pair
            before, parts = "S", []
        before = _LETTERS.get(step.kind, before)


def pieces(task: Task) -> dict[str, list[int]]:
    """Return the lengths of a task's pieces by their pair, ns."""
    found: dict[str, list[int]] = defaultdict(list)
    for parts, pair in _pairs(task):
        found[pair].append(sum(task.steps[place].value for place in parts))
    return found


def costs_of(played: Program) -> dict[str, float]:
    """Return the cost of each pair.

    Args:
        played: rebuilt from the recording of probe().
    """
    found: dict[str, list[int]] = defaultdict(list)
    for task in played.tasks:
        for pair, lengths in pieces(task).items():
            piece = _LENGTHS_NS.get(pair, PIECE_NS)
            whole = (length for length in lengths if piece < length < _ONE_PIECE * piece)
            found[pair] += [length - piece for length in whole]
    return {pair: statistics.median(more) for pair, more in found.items() if len(more) >= _ENOUGH}


def _cost(costs: Costs, pair: str) -> float:
    """Return the cost of a pair; that of a birth is added to the one of what follows."""
    if pair[0] != "B":
        return costs.get(pair, 0.0)
    return costs.get(_BIRTH, 0.0) - costs.get("SS", 0.0) + costs.get("S" + pair[1], 0.0)


def without(program: Program, costs: Costs, own: OwnCosts | None = None) -> Program:
    """Return a program whose pieces are shorter by the cost of what is around them.

    Args:
        program: as recorded.
        costs: of the player.
        own: costs that the recording of a clone has corrected.
    """
    tasks = []
    for number, task in enumerate(program.tasks):
        steps, owed, done, seen = list(task.steps), 0.0, 0, Counter[str]()
        for parts, pair in _pairs(task):
            cost = (own or {}).get((number, pair), _cost(costs, pair))
            owed -= cost[seen[pair]] if isinstance(cost, Sequence) else cost
            seen[pair] += 1
            for place in parts:
                queued = sum(one.value for one in steps[done:place] if one.kind is Kind.RCU)
                left, done = steps[place].value - QUEUE_NS * queued + owed, place
                owed = max(left, -_OWED_MOST_NS) if left < 0 else 0.0
                steps[place] = replace(steps[place], value=max(0, round(left)))
        tasks.append(replace(task, steps=steps))
    return replace(program, tasks=tasks)


def corrected(
    recorded: Program, played: Sequence[Program], costs: Costs
) -> dict[tuple[int, str], float | Sequence[float]]:
    """Return costs by which the usual pieces of each task get their recorded lengths.

    Tasks of one name make up for few pieces of each. If there are few all the same, as at a start,
    each piece is corrected alone where the plays together have as many of each.

    Args:
        recorded: rebuilt from the recording, with nothing taken out.
        played: rebuilt from the recordings of its clone.
        costs: of the player.
    """
    theirs: dict[tuple[str, str], list[int]] = defaultdict(list)
    for task in (task for one in played for task in one.tasks):
        for pair, lengths in pieces(task).items():
            theirs[task.name, pair] += lengths
    alone: dict[tuple[int, str], _Lengths] = {}
    named: dict[tuple[str, str], _Lengths] = defaultdict(lambda: ([], []))
    for number, task in enumerate(recorded.tasks):
        for pair, mine in pieces(task).items():
            alone[number, pair] = mine, theirs[f"c{number}", pair]
            for every, more in zip(named[task.name, pair], alone[number, pair], strict=True):
                every += more
    found: dict[tuple[int, str], float | Sequence[float]] = {}
    for (number, pair), own in alone.items():
        for mine, again in (own, named[recorded.tasks[number].name, pair]):
            if min(len(mine), len(again)) >= _ENOUGH:
                # Exits share their CPUs with other work, so their lengths have no usual one.
                usual = statistics.fmean if pair[1] == _EXIT[1] else statistics.median
                found[number, pair] = _cost(costs, pair) + usual(again) - usual(mine)
                break
        else:
            mine, again = own
            if len(again) == len(played) * len(mine):
                # The pieces of one play come after those of another.
                each = (again[place :: len(mine)] for place in range(len(mine)))
                found[number, pair] = [_cost(costs, pair) + statistics.median(plays) - one
                                       for one, plays in zip(mine, each, strict=True)]  # fmt: skip
    return found


def bare(program: Program) -> Program:
    """Return a program without the work of RCU that its recording tells."""
    tasks = [
        replace(task, steps=[step for step in task.steps if step.kind is not Kind.RCU])
        for task in program.tasks
    ]
    return replace(program, tasks=tasks)


def share_of(recorded: Program, played: Sequence[Program], bared: Sequence[Program]) -> float:
    """Return the share of the work of RCU by which its softirqs work as long as recorded.

    The calls of a clone queue some of that work themselves, so it is not in proportion.

    Args:
        recorded: rebuilt from the recording.
        played: rebuilt from the recordings of its clone.
        bared: the same of its clone without that work.
    """
    least, most = (statistics.fmean(one.rcu_ns for one in each) for each in (bared, played))
    share = (recorded.rcu_ns - least) / max(1.0, most - least)
    return min(_MORE_MOST, max(0.0, share))


def between(played: OwnCosts, bared: OwnCosts, share: float) -> OwnCosts:
    """Return the costs of a clone with that share of the work of RCU.

    To queue it takes another time at the birth of a process than elsewhere.

    Args:
        played: costs with all of it.
        bared: costs without it.
        share: as of share_of().
    """
    found = {**bared, **played}
    for key in played.keys() & bared.keys():
        most, least = played[key], bared[key]
        if isinstance(most, Sequence) and isinstance(least, Sequence):
            found[key] = [a + share * (b - a) for a, b in zip(least, most, strict=True)]
        elif not isinstance(most, Sequence) and not isinstance(least, Sequence):
            found[key] = least + share * (most - least)
    return found


def freeing(recorded: Program, share: float) -> Program:
    """Return a program with that share of the work of RCU, as of share_of()."""
    tasks = []
    for task in recorded.tasks:
        steps = [replace(step, value=round(share * step.value)) if step.kind is Kind.RCU else step
                 for step in task.steps]  # fmt: skip
        kept = [step for step in steps if step.value or step.kind is not Kind.RCU]
        tasks.append(replace(task, steps=kept))
    return replace(recorded, tasks=tasks)
