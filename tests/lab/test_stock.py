# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab capture --stock` on a stock kernel: probes set, recorded with, and removed."""

import json
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.lab import LabResult, LabRun, run_lab
from cpuidle_lab.recording import columns
from tests.lab.guest_python import PYTHON, command_files

pytestmark = [pytest.mark.lab, pytest.mark.full]

SCRIPT = f"""
. /lab/functions
load cpuidle_emul machine=skx
export PYTHONPATH=/lab/tools
capture() {{ {PYTHON} /lab/main.py capture "$@"; }}
probes() {{ cat $tracing/kprobe_events | wc -l; }}
echo 'p:mine/own tick_nohz_idle_enter' >>$tracing/kprobe_events
capture --stock --json -o /results/good.dat -- \
    sh -c 'for n in $(seq 50); do usleep 10000; done' >/results/good.json
echo "good.code: $?"
echo "good.probes: $(probes) $(cat $tracing/set_event | wc -l) $(cat $tracing/trace_clock)"

# The kernel names a script's task by its file.
printf '#!/bin/sh\nfor n in $(seq 50); do usleep 10000; done\n' >/tmp/secret-work
chmod 755 /tmp/secret-work
capture --stock --events sched -o /results/named.dat -- /tmp/secret-work
capture --stock --events sched --scrub -o /results/scrubbed.dat -- /tmp/secret-work
echo "scrubbed.code: $?"
mkdir /results/samples
capture --stock --scrub --sample 0.5 -o /results/samples
echo "sample.code: $?"

# The shell's own process would be killed otherwise.
(exec {PYTHON} /lab/main.py capture --stock -o /results/killed.dat -- sleep 600 2>/dev/null) &
until_runs sleep || exit 1
echo "during.probes: $(probes)"
kill -KILL $!
wait $!
kill $(pidof sleep)
# The guest's Python lacks ctypes, by which the recorder ends with its parent.
kill -INT $(pidof trace-cmd)
while pidof trace-cmd >/dev/null; do usleep 100000; done
echo "killed.probes: $(probes)"
capture --stock -o /results/next.dat -- true
echo "next.code: $?"
echo "next.probes: $(probes) $(cut -d ' ' -f 1 $tracing/kprobe_events)"

# A shell's background ignores SIGINT.
(exec {PYTHON} /lab/main.py capture --stock -o /results/ended.dat -- sleep 600 2>/dev/null) &
until_runs sleep || exit 1
kill -TERM $!
wait $!
echo "ended.code: $?"
echo "ended.probes: $(probes)"

capture --print >/tmp/record.sh
sh /tmp/record.sh 1 /results/hand.dat >/dev/null
echo "hand.code: $?"
echo "hand.probes: $(probes)"
rm -rf /results/.capture-*

mount -t securityfs none /sys/kernel/security 2>/dev/null
for level in integrity confidentiality; do
	echo $level >/sys/kernel/security/lockdown
	capture --stock --duration 1 -o /results/$level.dat >/dev/null 2>/results/$level.said
	echo "$level.code: $?"
done
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Boot once."""
    output = tmp_path_factory.mktemp("stock") / "results"
    run = LabRun(script=SCRIPT, cpus=2, files=command_files())
    return run_lab(run, output).check()


def said(result: LabResult) -> dict[str, str]:
    """Return the lines NAME: VALUE of the script's output."""
    return dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)


def test_probes_are_removed_and_those_of_others_left_alone(result: LabResult) -> None:
    told = said(result)
    assert told["good.code"] == "0"
    probes, events, clock = told["good.probes"].split(maxsplit=2)
    assert (probes, events) == ("1", "0") and "[local]" in clock
    assert told["during.probes"] == "7"
    assert (told["hand.code"], told["hand.probes"]) == ("0", "1")


def test_the_next_session_removes_the_probes_of_a_killed_one(result: LabResult) -> None:
    told = said(result)
    assert told["killed.probes"] == "7"
    assert told["next.code"] == "0"
    assert told["next.probes"] == "1 p:mine/own"
    assert (told["ended.code"], told["ended.probes"]) == ("143", "1")


def uncompressed(path: Path, folder: Path) -> bytes:
    """Return the bytes of a trace without compression."""
    target = folder / path.name
    words = ["trace-cmd", "convert", "-i", str(path), "-o", str(target), "--file-version", "6"]
    subprocess.run(words, check=True, capture_output=True)
    return target.read_bytes()


def test_no_name_is_left_in_a_scrubbed_recording(result: LabResult, tmp_path: Path) -> None:
    told = said(result)
    assert (told["scrubbed.code"], told["sample.code"]) == ("0", "0")
    named = uncompressed(result.files / "named.dat", tmp_path)
    assert named.count(b"secret-work") > 100 and b"Linux lab " in named
    (sample,) = (result.files / "samples").iterdir()
    for path in (result.files / "scrubbed.dat", sample):
        left = uncompressed(path, tmp_path)
        assert (
            b"secret-work" not in left and b"trace-cmd\0" not in left and b"Linux lab " not in left
        )
        assert path.stat().st_size < len(left) / 2
    with columns.opened(sample) as recording:
        assert recording.rows("interval") > 5


@pytest.mark.parametrize("name", ["good.dat", "hand.dat", "scrubbed.dat"])
def test_the_recording_can_be_replayed(result: LabResult, name: str) -> None:
    with columns.opened(result.files / name) as recording:
        assert recording.kind == columns.TRACE
        assert recording.stock is not None and recording.stock["way"] == "probes"
        assert recording.state_tables[0].names == ("POLL", "C1", "C1E", "C6")
        assert recording.kernel.startswith("6.12")
        assert recording.rows("interval") > 20
        asked, inferred = recording.stock["asked"], recording.stock["inferred"]
        assert asked > 0.8 * (asked + inferred + recording.stock["untold"])


def test_lockdown_for_confidentiality_alone_forbids_it(result: LabResult) -> None:
    told = said(result)
    assert (told["integrity.code"], told["confidentiality.code"]) == ("0", "1")
    assert (result.files / "integrity.dat").exists()
    assert not (result.files / "confidentiality.dat").exists()
    assert "locked down (confidentiality)" in (result.files / "confidentiality.said").read_text()


def test_the_way_is_said(result: LabResult) -> None:
    told = json.loads((result.files / "good.json").read_text())
    assert (told["way"], told["why"], told["governor"]) == ("probes", "", "menu")
