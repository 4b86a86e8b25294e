# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab capture` with a stock kernel and Debian's trace-cmd; the service's helper, too."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cpuidle_lab.clone import events
from cpuidle_lab.lab import LabResult, LabRun, run_lab
from tests.lab.guest_python import PACKAGE, PYTHON, command_files

pytestmark = pytest.mark.lab

TOP = Path(__file__).resolve().parents[2]

SCRIPT = f"""
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
export PYTHONPATH=/lab/tools
capture() {{ {PYTHON} /lab/main.py capture "$@"; }}
state() {{
    echo $(cat $cpuidle/current_governor $knobs/wteo/latency_bias $knobs/wteo/learning_rate \\
        $tracing/tracing_on $tracing/set_event $tracing/current_tracer)
}}
attempt() {{
    what=$1
    shift
    before=$(state)
    capture "$@" 2>/results/$what.err
    echo "$what.code: $?"
    echo "$what.message: $(tail -n 1 /results/$what.err)"
    [ "$(state)" = "$before" ] || echo "$what.differs: $before, now $(state)"
}}
echo "state: $(state)"
ask="cat $cpuidle/current_governor $knobs/wteo/latency_bias $tracing/events/cpuidle_lab/enable"
attempt good --governor wteo --set wteo.latency_bias=500 --events power -o /results/good.dat \\
    -- sh -c "$ask >/results/during; sleep 1; exit 5"
attempt timed --governor teo_ng --duration 2 -o /results/timed.dat
attempt refused --governor wteo --set wteo.latency_bias=500 --set wteo.learning_rate=9999 \\
    -o /results/refused.dat -- true
attempt unknown --governor nosuch -o /results/unknown.dat -- true
trace-cmd start -e sched:sched_switch >/dev/null
attempt busy -o /results/busy.dat -- true
trace-cmd reset -a

request() {{ od -An -td4 -N4 /dev/cpu_dma_latency | tr -d ' '; }}
before=$(request)
capture --clone -o /results/quick.dat -- sh -c "od -An -td4 -N4 /dev/cpu_dma_latency >/tmp/held" \
    2>/results/quick.err
echo "quick.code: $?"
echo "quick.held: $(tr -d ' ' </tmp/held)"
{PYTHON} /lab/main.py capture --clone -o /results/killed.dat -- sleep 600 2>/dev/null &
until_runs sleep || exit 1
echo "killed.held: $(request)"
kill -9 $!
wait $!
[ "$(request)" = "$before" ] || echo "killed.differs: $before, now $(request)"
killall sleep
killall -INT trace-cmd
for _ in $(seq 100); do pidof trace-cmd >/dev/null || break; usleep 100000; done

before=$(state)
{PYTHON} /lab/main.py capture --governor wteo --set wteo.learning_rate=99 -o /results/ended.dat \\
    -- sleep 600 2>/results/ended.err &
until_runs sleep || exit 1
echo "ended.meanwhile: $(state)"
kill -TERM $!
wait $!
echo "ended.code: $?"
[ "$(state)" = "$before" ] || echo "ended.differs: $before, now $(state)"
pidof sleep trace-cmd && echo "ended.left: processes"
ls -A /results >/tmp/names && mv /tmp/names /results/names

restore() {{ sh /lab/cpuidle-lab-restore "$@" 2>&1; }}
rmmod cpuidle_lab
printf 'governor=wteo\nwteo.learning_rate=77\nwteo.latency_bias=500\n' >/etc/cpuidle-lab.conf
echo "start.message: $(restore start)"
echo "start.state: $(state)"
restore stop
echo "stop.state: $(state)"
echo wteo.learning_rate=9999 >/etc/cpuidle-lab.conf
echo "wrong.message: $(restore start)"
rmmod cpuidle_lab || echo "rmmod.failed: $(dmesg | tail -n 1)"
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Run all captures in one boot."""
    files = command_files() | {
        "lab/cpuidle-lab-restore": (TOP / "packaging" / "cpuidle-lab-restore").read_bytes(),
        "etc/none": b"",
    }
    output = tmp_path_factory.mktemp("capture") / "results"
    return run_lab(LabRun(script=SCRIPT, files=files, real_time=True), output).check()


@pytest.fixture(scope="module")
def said(session: LabResult) -> dict[str, str]:
    """Return the script's lines "name: value"."""
    return dict(line.split(": ", 1) for line in session.output.splitlines() if ": " in line)


def test_nothing_is_left_changed(said: dict[str, str]) -> None:
    assert said["state"].startswith("menu 1024 16 ")
    assert [name for name in said if name.endswith((".differs", ".left", ".failed"))] == []


def test_the_workload_ran_under_the_governor_with_events_on(
    session: LabResult, said: dict[str, str]
) -> None:
    assert said["good.code"] == "5", said["good.message"]
    assert (session.files / "during").read_text().split() == ["wteo", "500", "1"]
    assert said["timed.code"] == "0", said["timed.message"]


@pytest.mark.parametrize(("name", "governor"), [("good", "wteo"), ("timed", "teo_ng")])
def test_the_traces_hold_the_decisions(name: str, governor: str, session: LabResult) -> None:
    report = subprocess.run(
        [sys.executable, "-m", "cpuidle_lab", "report", "--json", session.files / f"{name}.dat"],
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    runs = json.loads(report.stdout)["runs"]
    assert {run["governor"] for run in runs} == {governor}
    assert [zone["zone"] for run in runs for zone in run["zones"]] == ["cpuidle-emul:0"]
    assert all(run["metrics"]["emulated_mj"] > 0 for run in runs)


def test_a_request_lasts_as_long_as_a_recording_for_a_clone(
    session: LabResult, said: dict[str, str]
) -> None:
    """Its marker has the request; kill -9 ends it, too."""
    assert said["quick.code"] == "0", (session.files / "quick.err").read_text()
    assert said["quick.held"] == said["killed.held"] == "2"
    (phase,) = events.phases(events.read(session.files / "quick.dat"), Path("quick.dat"))
    assert phase.request_us == 2


def test_what_is_refused_says_why(said: dict[str, str]) -> None:
    assert [said[f"{name}.code"] for name in ("refused", "unknown", "busy")] == ["1"] * 3
    assert "learning_rate: the kernel does not accept this value" in said["refused.message"]
    assert "only: " in said["unknown.message"]
    assert "another tracing session records sched:sched_switch" in said["busy.message"]


def test_a_signal_in_the_middle_restores_everything(
    session: LabResult, said: dict[str, str]
) -> None:
    assert said["ended.meanwhile"].startswith("wteo 1024 99 ")
    assert said["ended.code"] == "143"
    assert "interrupted by SIGTERM" in (session.files / "ended.err").read_text()


def test_the_service_sets_and_restores(said: dict[str, str]) -> None:
    assert said["start.message"] == ""
    assert said["start.state"].startswith("wteo 500 77 ")
    assert said["stop.state"].startswith("menu ")
    assert said["wrong.message"].endswith("the kernel does not accept wteo.learning_rate=9999")


def test_only_what_was_recorded_is_left(session: LabResult) -> None:
    names = (session.files / "names").read_text().split()
    kept = {name for name in names if name.endswith(".dat")}
    assert kept == {"good.dat", "timed.dat", "quick.dat"}
    assert not [name for name in names if name.startswith(".")]
    # The kernel on foreign modules, and the module on the value that is refused on purpose.
    expected = (
        "taint",
        "hrtimer: interrupt took",
        "wteo: no tunable learning_rate, or its value is out of range",
    )
    lines = session.complaints()
    assert [line for line in lines if not any(text in line for text in expected)] == []
