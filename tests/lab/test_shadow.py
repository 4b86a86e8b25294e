# SPDX-License-Identifier: GPL-2.0
"""Shadow governors decide beside the one in use, and leave no mark on it."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from cpuidle_lab.lab import LabResult, LabRun, programs, run_lab
from cpuidle_lab.recording import columns
from cpuidle_lab.replay.fidelity import fidelity
from cpuidle_lab.replay.policies import recorded_shadows
from cpuidle_lab.view.watch import parse_stats

pytestmark = pytest.mark.lab

NAPS = programs.Program("naps", "tests/lab/naps/naps.c")

FUNCTIONS = """
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
shadow=$knobs/shadow
stats() { cat $knobs/shadow_stats >/results/$1; }
online() { echo $1 >/sys/devices/system/cpu/cpu1/online; }
# Idle periods of many lengths on both CPUs.
work() {
    for cpu in 0 1; do
        taskset -c $cpu naps $1 &
    done
    wait
}
# trace FILE N: what is recorded of so much work, after a reset of the governor in use.
trace() {
    trace_start 24 cpuidle_lab
    echo 1 >$knobs/$(cat $cpuidle/current_governor)/reset
    work $2
    trace-cmd stop
    cp $tracing/trace /results/$1
    trace-cmd reset >/dev/null
}
"""

EVENT = re.compile(r"\[(\d+)\] .* cil_(\w+): (seq=(\d+) .*|\w+: \w+=.*)$")


def guest(
    tmp_path: Path, script: str, files: Mapping[str, bytes] = MappingProxyType({}),
    **options: object,
) -> LabResult:  # fmt: skip
    """Run a script in the guest; no warning may be logged."""
    given = {**programs.file(NAPS), **files}
    run = LabRun(script=FUNCTIONS + script, files=given, **options)  # type: ignore[arg-type]
    result = run_lab(run, tmp_path / "results").check()
    foreign = ("out-of-tree module", "module verification failed")
    assert [line for line in result.complaints() if not any(t in line for t in foreign)] == []
    return result


def answers(result: LabResult) -> dict[str, str]:
    """Return the script's lines "name: value"."""
    return dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)


Row = dict[str, int]


def stats(text: str) -> dict[tuple[int, str, str], Row]:
    """Return the rows of shadow_stats by CPU, role and governor."""
    head, *lines = text.splitlines()
    names = head.removeprefix("# ").split()
    assert names[:3] == ["cpu", "governor", "role"]
    rows = [line.split() for line in lines]
    keys = [(int(row[0]), row[2], row[1]) for row in rows]
    assert len(set(keys)) == len(keys) == len(parse_stats(text)), "`cpuidle-lab watch` reads it"
    values = [dict(zip(names[3:], map(int, row[3:]), strict=True)) for row in rows]
    return dict(zip(keys, values, strict=True))


def check_sums(rows: dict[tuple[int, str, str], Row]) -> None:
    """Each decision agrees, or is deeper, or shallower; all of a CPU made as many."""
    for (cpu, role, _), row in rows.items():
        assert row["agree"] + row["deeper"] + row["shallower"] == row["decisions"]
        (acting,) = (value for key, value in rows.items() if key[:2] == (cpu, "active"))
        assert row["decisions"] == acting["decisions"]
        assert row["oracle_cost"] == acting["oracle_cost"]
        if role == "active":
            assert row["agree"] == row["decisions"]


def events(text: str) -> list[tuple[int, str, int, str]]:
    """Return (CPU, event, seq, text) of the events of a trace that carry a number."""
    found = (EVENT.search(line) for line in text.splitlines())
    return [(int(m[1]), m[2], int(m[4]), m[3]) for m in found if m and m[4]]


def decision(text: str) -> tuple[str, ...]:
    """Return what a decision's event and a shadow's event both say of the decision."""
    found = re.search(r"\((\d+)\) stop_tick=(\d) reason=([\w-]+) .*row=(-?\d+)", text)
    assert found, text
    return (*found.groups(), "not asked" if "(not asked)" in text else "asked")


def decisions(
    trace: str,
) -> tuple[dict[tuple[int, int], str], dict[str, dict[tuple[int, int], str]]]:
    """Return the decisions by (CPU, seq), and those of each shadow likewise."""
    made: dict[tuple[int, int], str] = {}
    shadows: dict[str, dict[tuple[int, int], str]] = {}
    for cpu, event, seq, text in events(trace):
        if event == "decision":
            made[cpu, seq] = text
        elif event == "shadow":
            name = text.split()[1].rstrip(":")
            assert (cpu, seq) not in shadows.setdefault(name, {})
            shadows[name][cpu, seq] = text
    return made, shadows


def check_twin(trace: str, governor: str, others: set[str]) -> Counter[str]:
    """Assert that a shadow of the governor in use repeats it; return its reasons."""
    made, shadows = decisions(trace)
    assert set(shadows) == {governor, *others}
    twin = shadows[governor]
    for cpu in (0, 1):
        fresh = {key: text for key, text in twin.items() if key[0] == cpu and " fresh" in text}
        assert len(fresh) == 1, "one reset, one start"
        ((_, first),) = fresh
        after = {key: text for key, text in made.items() if key[0] == cpu and key[1] >= first}
        assert len(after) > 200
        assert {key: decision(text) for key, text in after.items()} == {
            key: decision(text) for key, text in twin.items() if key[0] == cpu and key[1] >= first
        }
        for other in others:
            assert after.keys() <= shadows[other].keys(), "one decision of each shadow for each"
    return Counter(decision(text)[2] for text in twin.values())


@pytest.mark.parametrize("kernel", ["6.12", pytest.param("7.2", marks=pytest.mark.full)])
def test_a_shadow_of_the_governor_in_use_repeats_it(kernel: str, tmp_path: Path) -> None:
    result = guest(
        tmp_path,
        """
        for each in wteo menu_ng teo_ng; do
            governor $each
            echo "teo_ng menu_ng wteo" >$shadow
            trace $each.txt 250
            stats $each.stats
        done
        # The tunables are each governor's own.
        governor wteo
        tune wteo latency_bias 500
        tune wteo learning_rate 90
        echo "menu_ng wteo" >$shadow
        trace tuned.txt 250
        stats tuned.stats
        """,
        kernel=kernel,
    )
    seen: set[str] = set()
    differing = costing = 0
    for name, governor in (
        ("wteo", "wteo"),
        ("menu_ng", "menu_ng"),
        ("teo_ng", "teo_ng"),
        ("tuned", "wteo"),
    ):
        trace = (result.files / f"{name}.txt").read_text()
        others = {"menu_ng"} if name == "tuned" else {"teo_ng", "menu_ng", "wteo"} - {governor}
        reasons = check_twin(trace, governor, others)
        seen |= set(reasons)

        rows = stats((result.files / f"{name}.stats").read_text())
        check_sums(rows)
        for cpu in (0, 1):
            acting, twin = rows[cpu, "active", governor], rows[cpu, "shadow", governor]
            assert twin["agree"] == twin["decisions"] > 200
            assert acting["cost"] == twin["cost"] >= acting["oracle_cost"] > 0
            strangers = [rows[cpu, "shadow", other] for other in others]
            differing += sum(row["agree"] < row["decisions"] for row in strangers)
            costing += sum(row["cost"] != acting["cost"] for row in strangers)

    # The twins had more than one thing to agree on, and the others did not always agree.
    assert len(seen) > 4, seen
    assert differing > 2
    assert costing > 2

    # Where a shadow starts, the trace says with which tunables.
    tuned = (result.files / "tuned.txt").read_text()
    assert re.search(r"tunable: wteo: latency_bias=500 generation=\d", tuned)
    assert re.search(r"tunable: menu_ng: history_size=\d+ generation=\d", tuned)
    assert not re.search(r"tunable: teo_ng", tuned)


@pytest.mark.full
def test_list_is_taken_or_refused_as_a_whole(tmp_path: Path) -> None:
    lines = ["nosuch", "wteo nosuch", "wteo wteo", "gate", "menu", "wteo none", "x" * 300]
    result = guest(
        tmp_path,
        """
        governor wteo
        echo "first: $(cat $shadow)"
        echo "  menu_ng   teo_ng " >$shadow
        echo "blanks: $(cat $shadow)"
        while read -r line; do
            echo "$line" 2>/dev/null >$shadow && fail "taken: $line"
            [ "$(cat $shadow)" = "menu_ng teo_ng" ] || fail "$line left $(cat $shadow)"
        done </lab/lines
        work 50
        stats on
        echo >$shadow
        echo "empty: $(cat $shadow)"
        echo wteo >$shadow
        echo none >$shadow
        echo "none: $(cat $shadow)"
        stats off
        trace off.txt 300
        """,
        files={"lab/lines": "".join(f"{line}\n" for line in lines).encode()},
    )
    said = answers(result)
    assert (said["first"], said["empty"], said["none"]) == ("none", "none", "none")
    assert said["blanks"] == "menu_ng teo_ng"
    assert set(stats((result.files / "on").read_text())) == {
        (cpu, role, name)
        for cpu in (0, 1)
        for role, name in (("active", "wteo"), ("shadow", "menu_ng"), ("shadow", "teo_ng"))
    }
    assert stats((result.files / "off").read_text()) == {}
    made, shadows = decisions((result.files / "off.txt").read_text())
    assert len(made) > 200
    assert shadows == {}, "switched off, there are no events"


@pytest.mark.full
def test_gate_over_a_kernel_governor_has_shadows(tmp_path: Path) -> None:
    """They are told PM QoS and hints, also where the governor that decides is not."""
    result = guest(
        tmp_path,
        """
        governor gate
        echo "teo_ng menu_ng wteo" >$shadow
        trace free.txt 300
        stats free.stats
        echo "$$ 5" >$knobs/gate/hints      # every CPU has one: the workers inherit it
        trace hinted.txt 300
        """,
    )
    rows = stats((result.files / "free.stats").read_text())
    check_sums(rows)
    assert {(role, name) for _, role, name in rows} == {
        ("active", "gate"),
        *(("shadow", name) for name in ("teo_ng", "menu_ng", "wteo")),
    }
    assert all(row["decisions"] > 200 for row in rows.values())

    made, shadows = decisions((result.files / "hinted.txt").read_text())
    hinted = {key for key, text in made.items() if " hint_ns=5000 " in text}
    free = {key for key, text in made.items() if " hint_ns=-1 " in text}
    assert len(hinted) > 200
    assert len(free) > 0
    for texts in shadows.values():
        depth = {key: int(decision(text)[0]) for key, text in texts.items()}
        assert max(depth[key] for key in hinted) == 1, "C1 has 2 us, C1E 10 us"
        assert max(depth[key] for key in free) > 1


@pytest.mark.full
def test_no_change_disturbs(tmp_path: Path) -> None:
    """Lists, governors and CPUs come and go; the module leaves with a list in force."""
    result = guest(
        tmp_path,
        """
        memory() { awk '/^Percpu/ { print $2 }' /proc/meminfo; }
        change() {
            for list in "wteo" "menu_ng teo_ng" none "teo_ng menu_ng wteo"; do
                echo "$list" >$shadow
                cat $knobs/shadow_stats >/dev/null
            done
        }
        governor menu_ng
        change
        echo "before: $(memory)"
        while [ ! -e /tmp/enough ]; do work 50; done &
        for i in $(seq 25); do change; done
        echo "after: $(memory)"
        touch /tmp/enough
        wait
        for each in teo_ng gate wteo menu gate menu_ng; do
            governor $each
            online 0; usleep 20000
            stats gone.$each
            online 1; usleep 20000
        done
        stats back
        governor menu
        usleep 50000
        stats foreign
        governor wteo
        usleep 50000
        echo "list: $(cat $shadow)"
        echo ladder >$cpuidle/current_governor
        rmmod cpuidle_lab || fail "the module stays"
        [ -e $knobs ] && fail "debugfs is left behind"
        load cpuidle_lab
        echo "new: $(cat $shadow)"
        """,
    )
    said = answers(result)
    assert said["list"] == "teo_ng menu_ng wteo"
    assert said["new"] == "none"
    # KiB; a leaked state of wteo would be a hundred times 4 KiB for each CPU.
    assert int(said["after"]) - int(said["before"]) < 200
    for name in ("teo_ng", "gate", "wteo", "menu_ng"):
        rows = stats((result.files / f"gone.{name}").read_text())
        check_sums(rows)
        assert {(cpu, role) for cpu, role, _ in rows} == {(0, "active"), (0, "shadow")}
    for name in ("foreign", "gone.menu"):
        assert stats((result.files / name).read_text()) == {}, "only while one of ours is current"
    back = stats((result.files / "back").read_text())
    check_sums(back)
    assert {cpu for cpu, _, _ in back} == {0, 1}


@pytest.mark.full
def test_replay_repeats_every_decision_of_a_shadow(tmp_path: Path) -> None:
    """Under each governor, with all changes: the recorded events hold all inputs of a shadow."""
    result = guest(
        tmp_path,
        """
        cstate=/sys/devices/system/cpu/cpu0/cpuidle/state3/disable
        governor wteo
        tune wteo latency_bias 500
        tune menu_ng history_size 16
        work 50
        trace_start 48 cpuidle_lab
        echo "teo_ng menu_ng wteo" >$shadow
        work 300
        tune wteo learning_rate 80
        tune menu_ng history_size 32
        work 300
        governor gate
        work 200
        echo "$$ 5" >$knobs/gate/hints
        work 200
        echo "$$ -" >$knobs/gate/hints
        tune wteo latency_bias 0
        online 0; usleep 20000; online 1
        echo 1 >$cstate
        work 200
        echo 0 >$cstate
        echo teo_ng >$knobs/gate/base
        work 200
        echo "wteo teo_ng" >$shadow
        work 100
        echo none >$shadow
        work 50
        echo "menu_ng wteo" >$shadow
        governor menu_ng
        exec 3>/dev/cpu_dma_latency
        printf '\\012\\0\\0\\0' >&3        # 10 us for everybody
        work 200
        exec 3>&-
        work 200
        trace_stop trace.dat
        """,
    )
    with columns.opened(result.files / "trace.dat") as recording:
        assert set(recorded_shadows(recording)) == {"teo_ng", "menu_ng", "wteo"}
        for governor in ("teo_ng", "menu_ng", "wteo"):
            found = fidelity(recording, governor, shadow=True)
            assert found.first == []
            assert found.identical == found.compared > 1500
            assert found.unknowable < 10
            # wteo has no more of them.
            assert len(found.reasons) >= 2
