# SPDX-License-Identifier: GPL-2.0
"""The definition of an interval, once more and as plainly as can be, and streams that try it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cpuidle_lab.recording import columns as co
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.states.table import StateTable
from tests.unit.tracedat import Trace

TIME_MAX = 2**63 - 1
TICK = 4_000_000
NEAR = 20_000
EARLY = 5_000
GRID_NEAR = 10_000
OLDER = 100_000
# As in grid.h.
TRUST, TRUST_MAX = 4, 64
EXIT = (0, 2_000, 133_000)
MACHINE = StateTable(
    ("POLL", "C1", "C6"),
    EXIT,
    (0, 2_000, 600_000),
    (1_000_000, 400_000, 50_000),
    (True, False, False),
    TICK,
)
CONFIG: dict[str, object] = {
    "seq": 1,
    "generation": 3,
    "tick_ns": TICK,
    "governor": 2,
    "states": 3,
    "polling": 1,
    "exit_latency_ns": list(EXIT),
    "target_residency_ns": [0, 2_000, 600_000],
    "power_mw": [1000, 400, 50],
    "names": "POLL,C1,C6",
    "kernel": "6.12.0-test",
}


@dataclass
class Decided:
    """One decision in the order of the recording, and the outcome that follows it, if any."""

    seq: int
    now: int
    sleep: int = TIME_MAX
    delta: int = TICK
    governor: int = 2
    flags: int = 0
    index: int = 1
    stop_tick: int = 0
    left: int = 1
    kind: int | None = 0
    residency: int = 0
    entered: int = 1
    tick: int = 0
    poll: int = 0
    lost: bool = False

    @property
    def usable(self) -> bool:
        """Its outcome is known."""
        return self.kind is not None

    @property
    def short(self) -> bool:
        """The period was no longer than the exit latency of its state."""
        return 0 < EXIT[self.entered] >= self.residency

    @property
    def stay(self) -> int:
        """Time in the state until something woke the CPU."""
        return self.residency // 2 if self.short else self.residency - EXIT[self.entered]

    @property
    def stopped(self) -> bool:
        """The tick was stopped already."""
        return bool(self.flags & tr.TICK_STOPPED)

    @property
    def overslept(self) -> bool:
        """The CPU was to be woken by itself long before."""
        due = self.sleep if self.stop_tick or self.stopped else self.delta
        if self.kind != 0 or self.entered == POLLING or due >= 2**50:
            return False
        return self.residency > max(due, 0) + EXIT[self.entered] + 100_000


POLLING = 0


def near(at: int, grid: int) -> bool:
    """Tell whether a moment is on the grid of the tick."""
    off = abs(at % TICK - grid)
    return grid >= 0 and min(off, TICK - off) <= GRID_NEAR


class Story:
    """Story that the decisions of a CPU tell, each from itself and those beside it."""

    def __init__(self, decided: list[Decided]) -> None:
        self.decided = decided
        # The grid of the tick, and the phase of the next event as the kernel told it.
        self.grids: list[int] = []
        self.phases: list[int] = []
        grid, trust = -1, 0
        for d in decided:
            phase = grid
            # The kernel tells; before it has, a tick that came when it was due tells, too.
            told = d.delta < d.sleep
            came = d.kind == 0 and d.tick == 1 and not d.stop_tick and d.residency >= d.delta
            if not d.stopped and d.delta >= 0 and (told or (grid < 0 and came)):
                phase = (d.now + d.delta) % TICK
                if near(phase, grid):
                    grid, trust = phase, trust + TRUST * (trust < TRUST_MAX)
                elif trust:
                    trust -= 1
                else:
                    grid, trust = phase, TRUST - 1
            self.grids.append(grid)
            self.phases.append(phase)

    def due(self, i: int) -> bool:
        """Tell whether the next event, of which the kernel told, is the tick.

        No event is later while the tick is running, but the kernel's present may be older.
        """
        d, grid = self.decided[i], self.grids[i]
        late = (d.now + d.delta - grid) % TICK
        return near(d.now + d.delta, grid) or (grid >= 0 and late <= OLDER and late < d.delta)

    def held(self, i: int) -> bool:
        """Tell whether the kernel answered with the tick, since it could not be stopped."""
        d = self.decided[i]
        if d.stopped or d.sleep != d.delta or not 0 <= d.sleep <= TICK:
            return False
        return self.due(i)

    def by_tick(self, i: int) -> bool:
        """Tell whether the tick ended a period, and not a timer that was due no later."""
        d = self.decided[i]
        if d.kind != 0 or d.delta >= d.sleep or d.stop_tick or d.stopped:
            return False
        if d.tick == 2:
            return d.residency >= d.delta - EARLY and self.due(i)
        return d.tick == 1

    def served(self, i: int) -> bool:
        """Tell whether the handler of a hidden tick served the timer that was due."""
        d = self.decided[i]
        on_grid = near(d.now + d.sleep, self.grids[i])
        return d.residency >= d.sleep - EARLY and (on_grid or self.held(i))

    def again(self, i: int) -> bool:
        """Tell whether the tick or the poll time limit ended a period."""
        d = self.decided[i]
        return self.by_tick(i) or bool(d.kind == 0 and d.poll)

    def told(self, i: int, earlier: int = 0) -> int:
        """Return the kernel's answer, as it had been so much earlier."""
        d = self.decided[i]
        if self.held(i):
            return co.TIMER_TICK - (d.sleep + earlier)
        return max(d.sleep, 0) + (earlier if d.sleep < 2**50 else 0)

    def answer(self, i: int) -> tuple[int, ...]:
        """Return what decision i was told, by columns of an answer, as of the wake-up before it."""
        d = self.decided[i]
        since, served = self.woken(i - 1, d.now)
        last = self.decided[i - 1]
        back = max(0, d.now - last.now - last.residency)
        return since, self.told(i, d.now - since), served, back, self.phases[i]

    def woken(self, i: int, now: int) -> tuple[int, int]:
        """Return when the CPU woke from period i, not after now, and how long it stayed then."""
        d = self.decided[i]
        left = d.now + d.stay
        since = min(left, now, *([d.now + d.delta] if self.by_tick(i) else []))
        return since, left - since

    def answers(self, group: list[int]) -> list[tuple[int, ...]]:
        """Return the later answers within an interval."""
        found = [self.answer(i) for i in group[1:]]
        i = group[-1]
        d = self.decided[i]
        if self.again(i) and self.fate(i) == "timer" and self.by_tick(i):
            # The timer went off in the tick, or on the way back from it.
            due, end = self.came(i), d.now + d.residency
            assert due is not None
            since, served = self.woken(i, end)
            timer = max(0, due - end) + end - since
            found.append((since, timer, served, 0, self.phases[i + 1]))
        return found

    def apart(self, i: int) -> bool:
        """Tell whether it is unknown what the CPU did between decision i - 1 and decision i."""
        if not i:
            return True
        before, after = self.decided[i - 1], self.decided[i]
        strange = after.seq != before.seq + 1 or after.governor != before.governor
        return strange or not before.usable

    def came(self, i: int) -> int | None:
        """Return when the timer came that decision i was told of, after its period, if it did."""
        d, after = self.decided[i], self.decided[i + 1]
        if self.held(i) or d.sleep >= 2**50:
            return None
        due, woken = d.now + max(d.sleep, 0), d.now + d.stay
        if d.entered != POLLING and woken - due > NEAR:
            return None  # it had passed before, so it had been moved
        return due if due <= after.now else None

    def fate(self, i: int) -> str:
        """Return what followed a period that the tick or the end of polling ended."""
        if i + 1 == len(self.decided) or self.apart(i + 1) or not self.decided[i + 1].usable:
            return "unknown"
        if self.came(i) is not None:
            return "timer"
        if self.decided[i + 1].left:
            return "work"
        return "aborted" if self.decided[i + 1].kind == 1 else "more"

    def groups(self) -> list[list[int]]:
        """Return the decisions of each interval."""
        found: list[list[int]] = []
        more = False
        for i, d in enumerate(self.decided):
            if d.kind is None:
                continue
            if d.kind == 1:
                found.append([i])
                more = False
                continue
            if more:
                found[-1].append(i)
            else:
                found.append([i])
            more = self.again(i) and self.fate(i) == "more"
        return found

    def end(self, group: list[int]) -> tuple[int, int, int]:
        """Return the length of an interval, when the CPU was awake again, and flags of its end."""
        i = group[-1]
        start, d = self.decided[group[0]].now, self.decided[i]
        if d.kind == 1:
            return 0, d.now, 0
        stay, flags = d.stay, 0
        length, awake = max(1, d.now + stay - start), d.now + d.residency
        if not self.again(i):
            until_due = stay >= d.sleep - NEAR
            if d.tick == 1 or (d.tick == 2 and self.served(i)):
                flags |= co.TICKED
            if not self.held(i) and d.sleep > 0 and until_due:
                flags |= co.TIMER
            return length, awake, flags
        fate = self.fate(i)
        if fate == "unknown":
            flags |= co.CUT
        if fate == "timer":
            due = self.came(i)
            assert due is not None
            length, awake = max(length, due - start), max(awake, due)
            flags |= co.TIMER
        if fate in ("timer", "work") and self.by_tick(i) and self.decided[i + 1].left:
            flags |= co.TICKED
        return length, awake, flags


def plainly(decided: list[Decided]) -> list[dict[str, Any]]:
    """Return the intervals of one CPU."""
    story = Story(decided)
    groups = story.groups()
    rows = []
    for number, group in enumerate(groups):
        first, last = decided[group[0]], decided[group[-1]]
        length, awake, flags = story.end(group)
        # Is the gap between the last interval and this one known, and the one before the next?
        earlier = groups[number - 1][-1] if number else -1
        known_before = number > 0 and not any(map(story.apart, range(earlier + 1, group[0] + 1)))
        after = groups[number + 1][0] if number + 1 < len(groups) else len(decided)
        known_after = after < len(decided) and not any(
            map(story.apart, range(group[-1] + 1, after + 1))
        )
        stayed = known_before and not first.lost and not first.left
        before = decided[earlier]
        halted = before.stopped or (before.stop_tick and not story.held(earlier))
        if first.stopped or (stayed and not halted):
            flags |= co.CONTINUED
        if last.kind == 0 and last.short:
            flags |= co.UNCERTAIN
        if any(decided[i].overslept for i in group):
            flags |= co.OVERSLEPT
        if not known_before or first.lost:
            flags |= co.GAP
        rows.append({
            "first_seq": first.seq,
            "periods": len(group),
            "start_ns": first.now,
            "length_ns": length,
            "timer_ns": story.told(group[0]),
            "tick_phase_ns": story.phases[group[0]],
            "busy_ns": max(0, decided[after].now - awake) if known_after else 0,
            "flags": flags,
            "index": first.index,
            "last_index": last.entered,
            "governor": first.governor,
            "answers": len(story.answers(group)),
            **{name: [one[n] for one in story.answers(group)] for n, name in enumerate(co.ANSWERS)},
        })  # fmt: skip
    return rows


PHASE = 1_234_567


@st.composite
def streams(draw: st.DrawFn) -> list[Decided]:
    """Return decisions of one CPU, with everything that can go wrong."""
    decided: list[Decided] = []
    seq, now, governor = draw(st.integers(1, 5)), 10**9, 2
    rare = st.sampled_from([False] * 9 + [True])
    edge = st.sampled_from([-1, 0, 1])
    for _ in range(draw(st.integers(0, 12))):
        seq += draw(st.integers(2, 4)) if draw(rare) else 1
        governor = 1 - governor if draw(rare) and governor < 2 else governor
        kind = draw(st.sampled_from([0] * 6 + [1, None]))
        index = draw(st.integers(0, 2))
        entered = draw(st.integers(0, 2)) if draw(rare) else index
        flags = draw(st.sampled_from([0, 0, 0, tr.TICK_STOPPED]))
        stop_tick = draw(st.integers(0, 1))
        # The tick is mostly where it is due, and then the timer often says the same.
        off = draw(
            st.sampled_from([0, 0, 0, 1, -GRID_NEAR - 1, -GRID_NEAR, GRID_NEAR, OLDER, OLDER + 1])
        )
        delta = draw(st.sampled_from([(PHASE - now) % TICK + off] * 3 + [-1, 0, 50_000, TICK]))
        length = [1, 900, 60_000, 200_000, 255_000, TICK, 9_000_000, delta - NEAR, delta]
        residency = max(0, draw(st.sampled_from(length)))
        awake = draw(st.sampled_from([0, 700, 20_000, 60_000, 3_000_000]))
        woken = residency - EXIT[entered] if residency > EXIT[entered] else residency // 2
        timers = [
            delta, delta, -5, 0, 50_000, TICK, TICK + 1, TIME_MAX, TIME_MAX,
            woken - NEAR, woken + NEAR, residency + awake, residency + awake + 1,
        ]  # fmt: skip
        sleep = draw(st.sampled_from(timers))
        if sleep not in (delta, TIME_MAX):
            sleep += draw(edge)
        if draw(rare):
            due = sleep if stop_tick or flags else delta
            if due < TICK:
                residency = max(due, 0) + EXIT[entered] + 100_000 + max(0, draw(edge))
        decided.append(
            Decided(
                seq=seq,
                now=now,
                sleep=sleep,
                delta=delta,
                governor=draw(st.sampled_from([2, 2, 2, 1])) if draw(rare) else governor,
                flags=flags,
                index=index,
                stop_tick=stop_tick,
                left=draw(st.sampled_from([0, 0, 1])),
                kind=kind,
                residency=residency if kind == 0 else 0,
                entered=entered,
                tick=draw(st.sampled_from([0, 1, 1, 2, 2])) if kind == 0 else 0,
                poll=int(kind == 0 and draw(rare)),
                lost=bool(decided) and draw(rare),
            )
        )
        now += residency + awake
    return decided


def add(trace: Trace, cpu: int, decided: list[Decided], *, free: bool = False) -> None:
    """Add a CPU's decisions to a trace, and its configuration before them.

    Args:
        trace: added to.
        cpu: the CPU.
        decided: its decisions.
        free: nothing limits them; else the limits are such that each can be told from the others.
    """
    trace.put(cpu, 1_000, "config", {**CONFIG, "cpu": cpu})
    for d in decided:
        trace.add(
            cpu, d.now, "decision", lost=3 if d.lost else 0, seq=d.seq, now_ns=d.now,
            latency_req_ns=TIME_MAX if free else d.seq * 7, hint_ns=-1,
            sleep_length_ns=d.sleep, delta_tick_ns=d.delta, governor=d.governor, flags=d.flags,
            index=d.index, stop_tick=d.stop_tick,
            disabled=0 if free else d.seq % 4, left=d.left,
        )  # fmt: skip
        if d.kind is not None:
            trace.add(
                cpu, d.now + d.residency, "outcome", seq=d.seq, now_ns=d.now + d.residency,
                residency_ns=d.residency, governor=d.governor, kind=d.kind, index=d.entered,
                tick=d.tick, poll_time_limit=d.poll,
            )  # fmt: skip


def made(trace: Trace, folder: Path) -> co.Recording:
    """Write a trace, turn it into columns and open them."""
    co.write(trace.write(folder / "t.dat"), folder / "columns")
    return co.Recording(folder / "columns")
