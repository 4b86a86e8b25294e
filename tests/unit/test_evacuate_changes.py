# SPDX-License-Identifier: GPL-2.0
"""The random changes of evacuated CPUs: what is drawn, and the judgement of the pinned task."""

import re

import pytest

from experiments.evacuate import table
from tests.campaigns.evacuation import run

SECOND_NS = 1_000_000_000


def test_a_seed_draws_the_same_changes() -> None:
    first = list(run.changes(7, 200, 4))
    assert first == list(run.changes(7, 200, 4))
    assert first[:50] == list(run.changes(7, 50, 4))
    assert first != list(run.changes(8, 200, 4))


def test_every_kind_of_change_is_drawn_and_known_to_the_guest() -> None:
    drawn = list(run.changes(1, 1000, 4))
    kinds = {change[2] for change in drawn}
    guest = (run.FOLDER / "guest.sh").read_text()
    assert kinds == set(re.findall(r"^do_(\w+)\(\)", guest, re.MULTILINE))
    assert {change[0] for change in drawn} == {"taken", "refused", "any"}


def test_no_change_takes_the_share_below_the_limit() -> None:
    shares = [
        int(change[4]) for change in run.changes(1, 1000, 4) if "evacuate_share_pct" in change
    ]
    assert shares and min(shares) >= run.LEAST_SHARE_PCT


def second(share_pct: int, held_pct: int = 50) -> run.Second:
    """Return what the task measured in a second in which it wanted to run all the time."""
    run_ns = share_pct * SECOND_NS // 100
    return run.Second(run_ns, SECOND_NS - run_ns, held_pct * SECOND_NS // 100)


@pytest.mark.parametrize(
    ("shares", "said"),
    [([], "never held"), ([60, 20], ""), ([60, 14, 60], "14 % of a second")],
)
def test_a_starved_task_is_noticed(shares: list[int], said: str) -> None:
    found = run.starved([second(share) for share in shares])
    assert said in found if said else found == ""


def test_a_line_that_is_cut_off_is_no_second() -> None:
    text = f"{SECOND_NS} 0 5\n{SECOND_NS // 2} {SECOND_NS // 2} 7\n12"
    assert [each.share_pct for each in run.parse_shares(text)] == [100, 50]


SWITCHES = {
    "as the kernel prints it": "prev_comm=records prev_pid=12 ==> next_comm=cil_evacuate/7",
    "as trace-cmd does": "records:12 [120] R ==> cil_evacuate/7:40 [98]",
    "from another task": "prev_comm=sh prev_pid=9 ==> next_comm=records next_pid=12",
}


@pytest.mark.parametrize("switch", SWITCHES.values(), ids=SWITCHES)
def test_the_last_task_is_seen_on_a_cpu_that_goes(switch: str) -> None:
    report = [
        "  sh-9 [000] .....     1.000000: print:         tracing_mark_write: begin module 87",
        "  sh-9 [000] .....     1.000100: print:         tracing_mark_write: written module 87",
        "  ev-40 [007] d..1.     1.002000: cpu_idle:             state=3 cpu_id=7",
        f"  records-12 [007] d..2.     1.030000: sched_switch:         {switch}",
        "  records-12 [006] d..2.     1.050000: sched_switch:  prev_comm=records ==> next_comm=sh",
        "  sh-9 [000] .....     1.800000: print:         tracing_mark_write: end module 87",
        "  sh-9 [000] .....     2.000000: print:         tracing_mark_write: back module 87",
        "  sh-9 [000] .....     2.053000: print:         tracing_mark_write: returned module 87",
    ]
    (found,) = table.read_changes(report).values()
    assert found.effect_ms == pytest.approx(2)
    assert found.left_ms == pytest.approx(30)
    assert found.returned_ms == pytest.approx(3)
