# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab calibrate` on emulated machines: what it says, and what it leaves.

Figures need virtual time: `make calibrate` judges them.
"""

import json
from typing import Any

import pytest

from cpuidle_lab.lab import LabResult, LabRun, run_lab
from tests.lab.guest_python import PYTHON
from tests.proofs.calibrate import guest

pytestmark = [pytest.mark.lab, pytest.mark.full]

# The load of a short watch is that of the boot.
PLAN = "--force --repetitions 2 --duration 0.2 --wakeups 20"

# A shell starts processes in the background with SIGINT ignored.
LISTENING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"

SCRIPT = f"""
{guest.FUNCTIONS}
machine() {{
    load cpuidle_emul states=C1:2:2:1400,C6:133:600:100 poll=none "$@"
    echo 1 >/sys/devices/system/cpu/cpu1/cpuidle/state1/disable
    before=$(settings)
}}
left() {{ [ "$(settings)" = "$before" ] && echo "$1: as before" || echo "$1: settings differ"; }}
# measure NAME OPTION...: a calibration to its end
measure() {{
    name=$1
    shift
    calibrate {PLAN} --json "$@" >/results/$name.json 2>/results/$name.err
    echo "$name: code $?"
    [ $name = second ] || left $name
}}
# begin: a calibration that has changed settings, as process $run
begin() {{
    {PYTHON} -c '{LISTENING}; exec(open("/lab/main.py").read())' calibrate \\
        {PLAN} --duration 20 >/dev/null 2>/results/$1.err &
    run=$!
    tries=0
    until [ "$(settings)" != "$before" ] && pidof calibrate-wake >/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "$1: nothing began: $(cat /results/$1.err)"
        usleep 50000
    done
}}
ended() {{
    wait $run
    echo "$1: code $?"
    left $1
}}

machine demote=2 secretly=1
measure secretly -o /results/machine.yaml --page /results/page.html
rmmod cpuidle_emul
machine demote=1
measure told
rmmod cpuidle_emul

machine
begin int; measure second; kill -INT $run; ended int
begin helper; kill -SEGV $(pidof calibrate-wake); ended helper
begin killed; kill -KILL $run; wait $run
[ "$(settings)" != "$before" ] && echo "killed: settings differ"
usleep 200000; pidof calibrate-wake && echo "killed: the load goes on"
mkdir /full && mount -t tmpfs -o size=8k full /full && head -c 8192 /dev/zero >/full/fill
measure mends -o /full/machine.yaml
ls -A /full | tr '\\n' ' '; echo "is full"
{PYTHON} -c 'import os; os.setuid(1000); exec(open("/lab/main.py").read())' calibrate \\
    2>/results/user.err; echo "user: code $?"
left user
ls /run/cpuidle-lab-calibrate.json 2>/dev/null
rmmod cpuidle_emul
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Calibrate several machines in one boot."""
    run = LabRun(script=SCRIPT, files=guest.files(), real_time=False, time_limit_s=900)
    return run_lab(run, tmp_path_factory.mktemp("calibrate") / "results").check()


def found(session: LabResult, name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((session.files / f"{name}.json").read_text())
    return data


def said(session: LabResult, name: str) -> str:
    return (session.files / f"{name}.err").read_text()


def test_a_demotion_that_the_driver_does_not_notice_is_said(session: LabResult) -> None:
    data = found(session, "secretly")
    (note,) = [note for note in data["notes"] if note.startswith("C6: ")]
    assert "demoted by the hardware" in note
    assert note in (session.files / "page.html").read_text()
    assert note in (session.files / "machine.yaml").read_text()
    states = {state["name"]: state for state in data["states"]}
    assert states["C6"]["demoted"]["share"] < 0.8 < states["C6"]["demoted"]["due"]
    assert states["C6"]["power_mw"] is None and states["C1"]["power_mw"] is not None
    assert states["C1"]["demoted"] is None


def test_a_demotion_that_the_driver_reports_is_said(session: LabResult) -> None:
    states = {state["name"]: state for state in found(session, "told")["states"]}
    notes = found(session, "told")["notes"]
    assert any(note.startswith("C6: in it for ") for note in notes)
    assert states["C6"]["share"] < 0.5 and states["C6"]["power_mw"] is None


def test_every_way_is_measured(session: LabResult) -> None:
    for state in found(session, "secretly")["states"]:
        ways = {name for name, value in state["exit_latency_us"].items() if value}
        assert ways == {"timer asleep", "timer awake", "ipi asleep", "ipi awake"}


@pytest.mark.parametrize(
    ("name", "code"),
    [("secretly", 0), ("told", 0), ("int", 130), ("helper", 1), ("mends", 1), ("user", 1)],
)  # fmt: skip
def test_the_settings_are_as_before(session: LabResult, name: str, code: int) -> None:
    assert f"{name}: code {code}\n" in session.output
    assert f"{name}: as before\n" in session.output


def test_a_kill_is_mended_by_the_next(session: LabResult) -> None:
    assert "killed: settings differ\n" in session.output
    assert "killed: the load goes on" not in session.output
    assert said(session, "mends").startswith("a calibration was killed: ")
    assert "calibrate.json" not in session.output


def test_two_at_once_are_refused(session: LabResult) -> None:
    assert "second: code 1\n" in session.output
    assert "another calibration is running" in said(session, "second")


def test_errors_are_one_sentence(session: LabResult) -> None:
    assert "No space left on device" in said(session, "mends")
    assert "fill is full\n" in session.output
    assert found(session, "mends")["states"]
    assert "needs root" in said(session, "user")
    assert "calibrate-wake" in said(session, "helper")
    for name in ("helper", "second", "user"):
        assert said(session, name).count("\n") == 1, said(session, name)
    assert said(session, "mends").count("\n") == 2, said(session, "mends")
    assert said(session, "int").strip() == "cpuidle-lab: interrupted by SIGINT"


def test_the_kernel_has_nothing_to_complain_about(session: LabResult) -> None:
    foreign = ("out-of-tree module", "module verification failed", "cpuidle_emul: ")
    assert [line for line in session.complaints() if not any(t in line for t in foreign)] == []
