# SPDX-License-Identifier: GPL-2.0
"""Hints follow their tasks, limit their CPUs, and are gone with them."""

from pathlib import Path

import pytest

from tests.lab.hints_guest import guest
from tests.lab.kernels import every_kernel

pytestmark = pytest.mark.lab


@every_kernel
def test_hints_follow_their_tasks(kernel: str, tmp_path: Path) -> None:
    said = guest(
        tmp_path,
        """
        governor gate
        echo "idle: $(attached no)"
        taskset -c 1 sleep 1000 & pid=$!
        usleep 20000
        echo "$pid 5" >$hints
        echo "attached: $(attached yes)"
        [ "$(on $pid)" = "$(cpu_of $pid)" ] || fail "set: on $(on $pid), not $(cpu_of $pid)"
        kill $pid; wait $pid
        usleep 50000
        grep -q "^$pid " $hints && fail "a dead task is still listed"
        [ -z "$(placed 0)$(placed 1)" ] || fail "a dead task is still counted"
        echo "detached: $(attached no)"

        # A family that migrates: every member is where the hint says it is.
        echo "$$ 7" >$hints
        for i in 1 2 3 4 5 6 7 8; do
            (for j in $(seq 30); do
                taskset -pc $((j % 2)) $(sh -c 'echo $PPID') >/dev/null
                usleep 1000
            done) &
        done
        usleep 30000
        inherited=$(grep -c "^[0-9]" $hints)
        [ $inherited -ge 9 ] || fail "only $inherited have a hint"
        wait
        echo "$$ -" >$hints
        usleep 100000
        [ -z "$(placed 0)$(placed 1)" ] || fail "counts are left: $(cat $hints)"
        echo "end: $(attached no)"
        """,
        kernel=kernel,
    )
    assert said["idle"] == "# tracepoints attached: no" == said["detached"] == said["end"]
    assert said["attached"] == "# tracepoints attached: yes"


@pytest.mark.parametrize("bases", ["menu wteo", pytest.param("teo_ng", marks=pytest.mark.full)])
def test_no_deeper_state_than_the_hint_allows(bases: str, tmp_path: Path) -> None:
    """C1E and C6 of skx take 10 us and 133 us to leave; C1 takes 2 us."""
    said = guest(
        tmp_path,
        f"bases='{bases}'"
        """
        for base in $bases; do
            echo $base >$knobs/gate/base
            governor gate
            taskset -c 1 sh -c 'while :; do usleep 5000; done' & pid=$!
            sleep 0.3
            echo "$pid 2" >$hints
            usleep 50000
            gated=$(deep 1) other=$(deep 0)
            sleep 1
            echo "$base.gated: $(($(deep 1) - gated))"
            echo "$base.other: $(($(deep 0) - other))"
            kill $pid
            wait
            usleep 50000
            free=$(deep 1)
            sleep 1
            echo "$base.free: $(($(deep 1) - free))"
        done
        """,
    )
    for base in bases.split():
        assert int(said[f"{base}.gated"]) == 0
        assert int(said[f"{base}.other"]) > 0
        assert int(said[f"{base}.free"]) > 0


def test_bad_hints_are_refused(tmp_path: Path) -> None:
    said = guest(
        tmp_path,
        """
        # Writes a text, which must give the error.
        try() {
            error=$(sh -c 'echo "$1" >"$2"' - "$1" $hints 2>&1)
            case "$error" in *"$2") ;; *) fail "'$1' gives '$error', not '$2'" ;; esac
        }
        try "" "Invalid argument"
        try "1" "Invalid argument"
        try "one 5" "Invalid argument"
        try "1 five" "Invalid argument"
        try "1 -5" "Invalid argument"
        try "-1 5" "Invalid argument"
        try "0 5" "Invalid argument"
        try "1 99999999999" "Invalid argument"
        try "$(printf '%0100d' 1) 5" "Invalid argument"
        try "4000000 5" "No such process"
        try "1 -" "No such file or directory"
        for limit in $(seq 108); do
            sleep 100 &
            echo "$! $limit" >$hints
        done
        sleep 100 &
        try "$! 1000" "No space left on device"
        echo "kept: $(grep -c "^[0-9]" $hints)"
        try "$! 64" ""
        echo "recount: $(cat $knobs/gate/recount)"
        rmmod cpuidle_lab       # with hints in use; the gate is not current
        [ -e $knobs ] && fail "it is still there"
        killall sleep
        sleep 0.1
        """,
        real_time=True,
    )
    assert said["kept"] == "108"
    assert said["recount"] == "agrees: 109 hints"
