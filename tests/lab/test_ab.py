# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab ab` with a stock kernel and the emulated machine's energy counter."""

import json
import subprocess
import sys
from typing import Any

import pytest

from cpuidle_lab.lab import LabResult, LabRun, run_lab
from tests.lab.guest_python import PACKAGE, PYTHON, command_files

pytestmark = pytest.mark.lab

# The command alone, which needs nothing from outside Python while it measures; what it shows at
# the end is left to the host, by --read.
MAIN = """
import sys
from cpuidle_lab import cli
from cpuidle_lab.commands import ab
ab._show = lambda path, is_json: 0
sys.exit(cli.main())
"""

# The gate keeps the CPU of a task with a hint in shallow states: it cannot but spend more than its
# base, for which the hint means nothing.
SCRIPT = f"""
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
export PYTHONPATH=/lab/tools
ab() {{ {PYTHON} /lab/main.py ab --settle 0.2 "$@"; }}
state() {{
    cd $knobs
    echo $(cat $cpuidle/current_governor wteo/latency_bias wteo/learning_rate gate/base)
}}
attempt() {{
    what=$1
    shift
    before=$(state)
    ab -o /results/$what.jsonl "$@" 2>/results/$what.err
    echo "$what.code: $?"
    echo "$what.message: $(tail -n 1 /results/$what.err)"
    [ "$(state)" = "$before" ] || echo "$what.differs: $before, now $(state)"
}}
echo "state: $(state)"
export knobs
short='echo "$$ 5" >$knobs/gate/hints
    for i in 1 2 3 4 5; do usleep 100000; done
    echo waited 5 times'
attempt good --governors gate,teo_ng --set gate.base=teo_ng --rounds 3 \\
    --metric 'waited ([0-9]+)' -- sh -c "$short"
attempt failed --governors teo_ng,wteo --set wteo.learning_rate=99 -- \\
    sh -c "cat $knobs/wteo/learning_rate; exit 3"
attempt refused --governors teo_ng,wteo --set wteo.learning_rate=9999 -- true

before=$(state)
{PYTHON} /lab/main.py ab --governors teo_ng,wteo --set wteo.learning_rate=99 --settle 0 \\
    -o /results/ended.jsonl -- sleep 600 2>/results/ended.err &
until_runs sleep || exit 1
echo "ended.meanwhile: $(state)"
kill -TERM $!
wait $!
echo "ended.code: $?"
[ "$(state)" = "$before" ] || echo "ended.differs: $before, now $(state)"
pidof sleep && echo "ended.left: processes"
rmmod cpuidle_lab || echo "rmmod.failed: $(dmesg | tail -n 1)"
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Run all sessions in one boot."""
    files = command_files(MAIN)
    output = tmp_path_factory.mktemp("ab") / "results"
    return run_lab(LabRun(script=SCRIPT, files=files), output).check()


@pytest.fixture(scope="module")
def said(session: LabResult) -> dict[str, str]:
    """Return the script's lines "name: value"."""
    return dict(line.split(": ", 1) for line in session.output.splitlines() if ": " in line)


@pytest.fixture(scope="module")
def answer(session: LabResult) -> Any:
    """Return the result of the good session, as the host computes it."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "cpuidle_lab",
            "ab",
            "--json",
            "--read",
            session.files / "good.jsonl",
        ],
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_nothing_is_left_changed(said: dict[str, str]) -> None:
    assert said["state"] == "menu 1024 16 menu"
    assert [name for name in said if name.endswith((".differs", ".left", ".failed"))] == []


def test_every_run_is_complete(said: dict[str, str], answer: Any) -> None:
    assert said["good.code"] == "0", said["good.message"]
    assert (answer["complete"], answer["rounds"], len(answer["runs"])) == (True, 3, 6)
    assert {run["metric"] for run in answer["runs"]} == {5}
    assert all(run["wall_s"] >= 0.5 for run in answer["runs"])


def test_a_latency_limit_costs_emulated_energy_and_time_in_the_deepest_state(
    answer: Any,
) -> None:
    figures = answer["figures"]
    mean = {
        key: {name: value["mean"] for name, value in figure["governors"].items()}
        for key, figure in figures.items()
    }
    assert mean["emulated_j"]["teo_ng"] < 0.9 * mean["emulated_j"]["gate"], mean
    assert mean["time_C6"]["teo_ng"] > 30 + mean["time_C6"]["gate"], mean
    assert "measured_j" not in figures
    for name in ("teo_ng", "gate"):
        idle = sum(mean[key][name] for key in mean if key.startswith("time_"))
        assert 50 < idle <= 101, "of the time of both CPUs"


def test_what_fails_or_is_refused_says_why(said: dict[str, str]) -> None:
    assert [said[f"{name}.code"] for name in ("failed", "refused")] == ["1"] * 2
    assert "the command ended with 3: 99" in said["failed.message"]
    assert "learning_rate: the kernel does not accept this value" in said["refused.message"]


def test_a_signal_in_the_middle_restores_everything(
    session: LabResult, said: dict[str, str]
) -> None:
    governor, _, learning_rate, _ = said["ended.meanwhile"].split()
    assert governor in ("teo_ng", "wteo")
    assert learning_rate == "99"
    assert said["ended.code"] == "143"
    assert "interrupted by SIGTERM" in (session.files / "ended.err").read_text()
