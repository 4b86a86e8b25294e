# SPDX-License-Identifier: GPL-2.0
"""Sleeps that no switch shows: a task was late for a deadline, or not asleep yet."""

from collections.abc import Sequence

import pytest

from cpuidle_lab.clone.drafts import WAKES_TASK, Draft, Recorded, Timer, steps_of
from cpuidle_lab.clone.program import Kind
from tests.unit.test_clone import BEGIN, END, Recording, lines

_MS = 1_000_000
_OTHER = 7


def sleeper(
    rounds: Sequence[tuple[float, Sequence[float]]], *, relative: bool = True, waits: bool = True
) -> list[str]:
    """Return the steps of a task that sleeps until deadlines, and then wakes another.

    Args:
        rounds: of each the deadline, and when the wake-ups came, ms; the last one ends them.
        relative: the kernel gets lengths, not times.
        waits: it waits for an answer to each.
    """
    drafts, up = [Draft(Kind.UNTIL, 0), Draft(Kind.RUN, 5)], 0.0
    for due, wakes in rounds:
        length = round((due - up) * _MS)
        timer = Timer(1, length, round(due * _MS), 50_000, relative, WAKES_TASK)
        drafts += [Draft(Kind.SLEEP, length, timer), Draft(Kind.RUN, 10)]
        for at in wakes:
            answer = [Draft(Kind.WAIT), Draft(Kind.RUN, 30)] if waits else []
            drafts += [Draft(Kind.POST, _OTHER, at=round(at * _MS)), Draft(Kind.RUN, 20), *answer]
            up = at + 0.1
    made = steps_of(Recorded("a"), drafts, {_OTHER: 1})
    return [step.line() for step in made]


# Two wake-ups a round, whose sleeps differ in length.
_DUE = (2.0, 7.5, 11.0, 20.0, 26.5, 30.0)
_USUAL = [(due, [due + 0.1, due + 0.6]) for due in _DUE]


def test_a_task_that_is_late_for_a_deadline_may_meet_it_on_a_quicker_machine() -> None:
    late = (13.0, [13.1, 13.6, 14.2, 14.7, 16.2, 16.7])
    steps = sleeper([*_USUAL[:3], late, *_USUAL[3:]])
    sleeps = [line for line in steps if line.startswith("until") and line != "until 0"]
    # After 13 ms, and before 14.2 ms, a second one was due, in the middle 13.6. A third one was due
    # between that and 16.2 ms.
    due = sorted([*_DUE, 13.0, 13.6, 14.9])
    assert sleeps == [f"until {round(ms * _MS)} late" for ms in due]
    # It comes after the wait in which a round ends.
    place = steps.index(f"until {round(13.6 * _MS)} late")
    assert steps[place - 1 : place + 3] == ["wait", steps[place], "run 30", "post 1"]
    assert not any(line.startswith("slack") for line in steps)


@pytest.mark.parametrize(
    "rounds",
    [
        _USUAL,
        # Three wake-ups are no two rounds.
        [*_USUAL[:3], (13.0, [13.1, 13.6, 14.2]), *_USUAL[3:]],
        # A multiple of one tells nothing.
        [(due, wakes[: 1 + (due == 11)]) for due, wakes in _USUAL],
        # Four numbers of wake-ups, each once, are no usual one.
        [(due, wakes * (1 + n)) for n, (due, wakes) in enumerate(_USUAL)],
        # Lengths recur.
        [(2.0 * n, [2 * n + 0.1, 2 * n + 0.6] * (1 + (n == 4))) for n in range(1, 9)],
    ],
)
def test_a_task_that_met_all_deadlines_has_no_others(
    rounds: Sequence[tuple[float, Sequence[float]]],
) -> None:
    assert not any("late" in line for line in sleeper(rounds))


def test_a_deadline_on_a_grid_or_one_that_a_post_ends_is_no_missed_one() -> None:
    grid = [(2.0 * n, [2 * n + 0.1, 2 * n + 0.6] * (1 + (n == 4))) for n in range(1, 9)]
    late = [*_USUAL[:3], (13.0, [13.1, 13.6, 14.2, 14.7]), *_USUAL[3:]]
    for rounds, waits in ((grid, False), (late, True)):
        steps = sleeper(rounds, relative=False, waits=waits)
        assert sum(line.startswith("until") for line in steps) == 1 + len(rounds)
        assert not any("late" in line for line in steps)


def test_a_timer_that_expires_before_its_task_sleeps_is_a_sleep() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.switch(10, "swapper/0-0", "a-1", "R")
    made.arm(30, "a-1", 5)
    made.expire(36, who="a-1")
    made.wake(37, "a-1", "a-1", "d.h3.")
    made.expired(38)
    made.arm(60, "a-1", 1000)
    made.switch(70, "a-1", "swapper/0-0")
    made.expire(1065)
    made.wake(1066, "<idle>-0", "a-1", "d.h3.")
    made.expired(1067)
    made.switch(1080, "swapper/0-0", "a-1", "R")
    made.switch(1100, "a-1", "swapper/0-0")
    made.mark(1200, END)
    a = next(task for task in made.program(shared=False).tasks if task.name == "a")
    # The interrupt takes 2 us of the second piece.
    assert lines(a)[1:] == ["run 26000", "sleep 5000", "run 32000", "sleep 1000000", "run 20000"]


def test_a_signal_that_comes_before_a_task_sleeps_is_no_sleep() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.switch(10, "swapper/0-0", "a-1", "R")
    made.arm(20, "a-1", 480)
    made.lines[-1] = made.lines[-1].replace("0xa", "0xc").replace(WAKES_TASK, "it_real_fn")
    made.arm(495, "a-1", 1000)
    made.expire(500, "0xc", "it_real_fn", "a-1")
    made.wake(501, "a-1", "a-1", "d.h3.")
    made.expired(502, "0xc")
    made.switch(510, "a-1", "swapper/0-0")
    made.expire(1500)
    made.wake(1501, "<idle>-0", "a-1", "d.h3.")
    made.expired(1502)
    made.switch(1510, "swapper/0-0", "a-1", "R")
    made.mark(1600, END)
    a = next(task for task in made.program(shared=False).tasks if task.name == "a")
    assert [line for line in lines(a) if "sleep" in line] == ["sleep 1000000"]


def test_a_length_that_an_interrupt_made_shorter_is_no_deadline() -> None:
    def kinds(odd: int, all_of: int, function: str = WAKES_TASK) -> set[str]:
        timers = [Timer(1, 3 * _MS - (40_000 * n if n < odd else 0), 4 * _MS * n, 50_000,
                        relative=True, function=function) for n in range(all_of)]  # fmt: skip
        drafts = [Draft(Kind.SLEEP, timer.length_ns, timer) for timer in timers]
        return {step.kind for step in steps_of(Recorded("a"), drafts, {})}

    assert kinds(3, 30) == {Kind.SLEEP}
    assert kinds(15, 30) == {Kind.SLEEP, Kind.UNTIL}
    # A signal ends a sleep that began later than its timer.
    assert kinds(3, 30, "it_real_fn") == {Kind.SLEEP, Kind.UNTIL}
