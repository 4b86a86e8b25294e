# SPDX-License-Identifier: GPL-2.0
"""The program of a clone, as text: docs/clone.md has the format.

It holds times and names alone. All times are in ns; work counts instructions of the lab, where one
takes 1 ns.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from cpuidle_lab.base.errors import UserError

HEADER = "cpuidle-lab clone 1"

# Bounds of the player's arrays (lab/guest/player.c).
TASKS_MOST, TIME_MOST_NS, JOINTS_MOST, LANES_MOST = 2000, 10**12, 400, 401
GATES_MOST = 1000
TICK_NS = 4_000_000


class Kind(StrEnum):
    """Kind of a step; the value is its word in the text."""

    RUN = "run"
    POST = "post"
    WAIT = "wait"
    SLEEP = "sleep"
    UNTIL = "until"
    SLACK = "slack"
    END = "end"
    READ = "read"
    WRITE = "write"
    LANE = "lane"
    ON = "on"
    AFTER = "after"
    AGAIN = "again"
    RCU = "rcu"
    FORK = "fork"
    REAP = "reap"
    EXIT = "exit"
    OPEN = "open"
    PASS = "pass"


# Kinds without a number, and those that may do without; those with an end in front of it.
_BARE, _MAYBE = (
    frozenset({Kind.END, Kind.EXIT, Kind.LANE, Kind.AGAIN}),
    frozenset({Kind.WAIT, Kind.RCU}),
)
_ON_ENDS = frozenset({Kind.READ, Kind.WRITE})
_IN_LANES = frozenset({Kind.ON, Kind.AFTER, Kind.AGAIN})
_OF_PROCESSES = frozenset({Kind.FORK, Kind.REAP})
_OF_TASKS = _OF_PROCESSES | {Kind.POST}
_OF_GATES = frozenset({Kind.OPEN, Kind.PASS})
_SLEEPS = frozenset({Kind.SLEEP, Kind.UNTIL})
EARLY, LATE, SKIP, SYNC = "early", "late", "skip", "sync"
PINNED, PROCESS, RESIDENT = _KINDS = "pinned", "process", "resident"
PIPE, TCP = "pipe", "tcp"


@dataclass(slots=True)
class Step:
    """A step of a task.

    Attributes:
        kind: what the task does.
        value: ns; of a post, a fork or a reap the number of a task; of a wait 0: without a
            timer; of `rcu` how often, 0: once; of a read or a write bytes; of `on` the number of
            an end; of `after` ms; of `open` and `pass` the number of a gate.
        early: of a sleep: a post ends it, and stays.
        end: of a read or a write: the number of the end.
        late: of `until`: the task does not sleep if its time has passed.
        skip: of `until`: it is left out, with the work behind it, if its time had passed when the
            task last got up.
        sync: of a wait without a timer: the post that ends it wakes as a write does, so the
            scheduler expects that the poster sleeps soon.
    """

    kind: Kind
    value: int = 0
    early: bool = False
    end: int = 0
    skip: bool = False
    sync: bool = False
    late: bool = False

    def line(self) -> str:
        """Return it as text."""
        bare = self.kind in _BARE or (self.kind in _MAYBE and not self.value)
        words = [self.kind, *([str(self.end)] if self.kind in _ON_ENDS else [])]
        words += [*([] if bare else [str(self.value)]), *([EARLY] if self.early else [])]
        words += [*([SKIP] if self.skip else []), *([LATE] if self.late else [])]
        words += [SYNC] if self.sync else []
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Joint:
    """A pipe or a connection over TCP; of that of number n the ends are 2 n and 2 n + 1.

    Attributes:
        slots: messages that a pipe has room for: its first end is written to, and the second is
            read; 0: a connection.
    """

    slots: int = 0

    def line(self, number: int) -> str:
        """Return it as text."""
        return f"{PIPE} {number} {self.slots}" if self.slots else f"{TCP} {number}"


@dataclass
class Task:
    """A task.

    Attributes:
        name: as recorded; of no effect.
        priority: the kernel's: below 100 real-time, else 120 for any.
        cpu: where it begins; the scheduler may move it.
        steps: in their order.
        pinned: the scheduler may not move it.
        process: it has memory of its own, which its exit frees.
        resident: it ran before the program, and wakes others, as a server does.
    """

    name: str
    priority: int = 120
    cpu: int = 0
    steps: list[Step] = field(default_factory=list)
    pinned: bool = False
    process: bool = False
    resident: bool = False


@dataclass
class Program:
    """A workload.

    Attributes:
        name: of the recorded workload.
        governor: that recorded.
        length_ns: how long the recorded phase took.
        start_ns: when it began after a tick.
        tasks: a post names its target by the place in this list.
        left_out: what the recording had and the program has not, a sentence each.
        joints: pipes and connections.
        rcu_ns: work of RCU's softirqs in the recording that it was built from.
        watchdog_ns: from its beginning to the next timer of the kernel's watchdog; None: any.
    """

    name: str
    governor: str
    length_ns: int
    start_ns: int
    tasks: list[Task]
    left_out: list[str] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    rcu_ns: float = 0
    watchdog_ns: int | None = None

    @property
    def steps(self) -> int:
        """Number of steps of all tasks."""
        return sum(len(task.steps) for task in self.tasks)

    def text(self) -> str:
        """Return it as text."""
        head = [
            HEADER,
            *(f"# left out: {sentence}" for sentence in self.left_out),
            f"name {_word(self.name)}",
            f"governor {_word(self.governor)}",
            f"length {self.length_ns}",
            f"start {self.start_ns}",
            *([] if self.watchdog_ns is None else [f"watchdog {self.watchdog_ns}"]),
            *(joint.line(number) for number, joint in enumerate(self.joints)),
        ]
        for number, task in enumerate(self.tasks):
            words = f"task {number} {_word(task.name)} {task.priority} {task.cpu}"
            kinds = {PINNED: task.pinned, PROCESS: task.process, RESIDENT: task.resident}
            head.append(" ".join([words, *(word for word, holds in kinds.items() if holds)]))
            head += [step.line() for step in task.steps]
        return "\n".join([*head, ""])

    def scrubbed(self) -> "Program":
        """Return it without names of tasks and workload."""
        named = [replace(task, name=f"t{place}") for place, task in enumerate(self.tasks)]
        return replace(self, name="workload", tasks=named)


def _word(name: str) -> str:
    return re.sub(r"[^!-~]|#", "_", name) or "_"


def load(path: Path) -> Program:
    """Return the program of a file.

    Raises:
        UserError: it has another format; the message names the line.
    """
    try:
        return parse(path.read_text(encoding="utf-8").splitlines(), path)
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no clone: it does not begin with '{HEADER}'") from None


def parse(lines: Sequence[str], path: Path) -> Program:
    """Return the program that a text holds.

    Args:
        lines: of the text.
        path: where it came from, for messages.

    Raises:
        UserError: see load().
    """
    if not lines or lines[0].strip() != HEADER:
        raise UserError(f"{path}: is no clone: it does not begin with '{HEADER}'")
    head: dict[str, str] = {}
    tasks: list[Task] = []
    joints: list[Joint] = []
    for number, words in _words(lines[1:]):
        try:
            if words[0] == "task":
                tasks.append(_task(words, len(tasks)))
            elif tasks:
                tasks[-1].steps.append(_step(words))
            elif words[0] in (PIPE, TCP):
                joints.append(_joint(words, len(joints)))
            else:
                head[words[0]] = _only(words)
        except ValueError as error:
            raise UserError(f"{path}: line {number}: {error}") from error
    try:
        length, start = (_time(head[word]) for word in ("length", "start"))
        watchdog = _time(head["watchdog"]) if "watchdog" in head else None
        program = Program(head["name"], head["governor"], length, start, tasks, joints=joints,
                          watchdog_ns=watchdog)  # fmt: skip
    except KeyError as missing:
        raise UserError(f"{path}: has no line '{missing.args[0]}'") from missing
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    check(program, path)
    return program


def check(program: Program, path: Path) -> None:
    """Refuse a program that the player cannot play.

    Raises:
        UserError: with the reason.
    """
    count = len(program.tasks)
    if not count:
        raise UserError(f"{path}: has no tasks")
    if count > TASKS_MOST:
        raise UserError(f"{path}: has {count:,} tasks; the player has room for {TASKS_MOST:,}")
    kinds = [step.kind for task in program.tasks for step in task.steps]
    if kinds.count(Kind.END) != 1:
        raise UserError(f"{path}: {kinds.count(Kind.END)} tasks have the step 'end', not one")
    if len(program.joints) > JOINTS_MOST:
        raise UserError(f"{path}: has more than {JOINTS_MOST} pipes and connections")
    for task in program.tasks:
        _check_lanes(task, path)
        for step in task.steps:
            if step.kind in _OF_TASKS and step.value >= count:
                raise UserError(f"{path}: '{step.line()}' of {task.name} names no task")
            if step.kind in _OF_PROCESSES and not program.tasks[step.value].process:
                raise UserError(f"{path}: '{step.line()}' of {task.name} names no process")
            if step.kind in _OF_GATES and step.value >= GATES_MOST:
                raise UserError(f"{path}: {task.name} uses gate {step.value}; the player has room "
                                f"for {GATES_MOST:,}")  # fmt: skip
            end = step.end if step.kind in _ON_ENDS else step.value
            if step.kind in _ON_ENDS | {Kind.ON} and end >= 2 * len(program.joints):
                raise UserError(f"{path}: {task.name} uses end {end}, which is none")
    _check_processes(program, path)


def _check_processes(program: Program, path: Path) -> None:
    """Refuse processes that are forked twice, by themselves, or reaped before; see check()."""
    forked: set[int] = set()
    for number, task in enumerate(program.tasks):
        mine: set[int] = set()
        for step in task.steps:
            if step.kind is Kind.FORK:
                if step.value in forked or step.value == number:
                    raise UserError(f"{path}: '{step.line()}' of {task.name} forks it once more")
                forked.add(step.value)
                mine.add(step.value)
            if step.kind is Kind.REAP:
                ends = any(one.kind is Kind.EXIT for one in program.tasks[step.value].steps)
                if step.value not in mine or not ends:
                    raise UserError(
                        f"{path}: '{step.line()}' of {task.name} waits for a process that it has "
                        "not forked, or that has no exit"
                    )


def _check_lanes(task: Task, path: Path) -> None:
    kinds = [step.kind for step in task.steps]
    if kinds.count(Kind.LANE) > LANES_MOST:
        raise UserError(f"{path}: {task.name} has more than {LANES_MOST} lanes")
    first = kinds.index(Kind.LANE) if Kind.LANE in kinds else len(kinds)
    if alone := next((kind for kind in kinds[:first] if kind in _IN_LANES), None):
        raise UserError(f"{path}: {task.name} has the step '{alone}' in front of its lanes")
    for kind, after in pairwise([*kinds[first:], Kind.LANE]):
        if kind is Kind.LANE and after not in _IN_LANES:
            raise UserError(f"{path}: a lane of {task.name} does not begin with 'on' or 'after'")


def _words(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield number and words of each line that has some, comments apart."""
    for number, line in enumerate(lines, 2):
        if words := line.partition("#")[0].split():
            yield number, words


def _only(words: Sequence[str]) -> str:
    if words[0] not in ("name", "governor", "length", "start", "watchdog") or len(words) != 2:
        raise ValueError(f"'{' '.join(words)}' is neither a fact of the program nor a task")
    return words[1]


def _time(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) > TIME_MOST_NS:
        raise ValueError(f"'{text}' is no number from 0 to {TIME_MOST_NS}")
    return int(text)


def _task(words: Sequence[str], expected: int) -> Task:
    kinds = words[5:]
    if len(words) < 5 or kinds != [kind for kind in _KINDS if kind in kinds]:
        known = " ".join(f"[{kind}]" for kind in _KINDS)
        raise ValueError(f"a task is 'task NUMBER NAME PRIORITY CPU {known}'")
    if _time(words[1]) != expected:
        raise ValueError(f"task {words[1]} stands in the place of task {expected}")
    held = (kind in kinds for kind in _KINDS)
    return Task(words[2], _time(words[3]), _time(words[4]), [], *held)


def _joint(words: Sequence[str], expected: int) -> Joint:
    is_pipe = words[0] == PIPE
    if len(words) != 2 + is_pipe or _time(words[1]) != expected:
        raise ValueError(f"'{' '.join(words)}' is not '{words[0]} {expected}'"
                         + is_pipe * " and its messages")  # fmt: skip
    return Joint(max(1, _time(words[2])) if is_pipe else 0)


def _step(words: Sequence[str]) -> Step:
    try:
        kind = Kind(words[0])
    except ValueError:
        raise ValueError(f"'{words[0]}' is no step; there are {', '.join(Kind)}") from None
    rest = list(words[1:])
    early = kind in _SLEEPS and rest[1:] == [EARLY]
    skip = kind is Kind.UNTIL and rest[1:] == [SKIP]
    late = kind is Kind.UNTIL and rest[1:] == [LATE]
    sync = kind is Kind.WAIT and rest == [SYNC]
    if early or skip or late or sync:
        rest.pop()
    end = _time(rest.pop(0)) if kind in _ON_ENDS and rest else 0
    if len(rest) > 1 or (not rest and kind not in _BARE | _MAYBE) or (rest and kind in _BARE):
        raise ValueError(f"'{' '.join(words)}' has too many words, or too few")
    return Step(kind, _time(rest[0]) if rest else 0, early, end, skip, sync, late)
