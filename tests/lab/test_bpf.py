# SPDX-License-Identifier: GPL-2.0
"""Governors as programs in BPF: the commands, and the proof in a short form."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.bpf import build
from cpuidle_lab.lab import LabResult, LabRun, images, run_lab
from tests.lab.guest_python import PYTHON, command_files
from tests.lab.hints_guest import program
from tests.unit import command
from tests.unit.bpf_tools import needs_tools

pytestmark = [
    pytest.mark.lab,
    needs_tools,
]

TOP = Path(__file__).parents[2]

FUNCTIONS = f"""
. /lab/functions
mkdir -p /tmp /run
export PYTHONPATH=/lab/tools
bpf() {{ {PYTHON} /lab/main.py bpf "$@"; }}
status=/sys/module/cpuidle_lab/parameters/bpf_status
# wait_for WORD FILE: for 30 s at most.
wait_for() {{
    for tenth in $(seq 300); do
        grep -q "$1" "$2" 2>/dev/null && return
        usleep 100000
    done
    fail "no '$1' in $2: $(cat $2)"
}}
# attempt NAME WORD...: its exit code, and the first line of what it says.
attempt() {{
    what=$1
    say "$what"
    shift
    bpf "$@" >/tmp/out 2>/tmp/err
    echo "$what.code: $?"
    echo "$what.out: $(head -n 1 /tmp/out)"
    echo "$what.err: $(head -n 1 /tmp/err)"
    echo "$what.err_lines: $(wc -l </tmp/err)"
}}
# start NAME WORD...: in the background; returns when the program is attached.
start() {{
    name=$1
    say "$name"
    shift
    {PYTHON} /lab/main.py bpf "$@" >/tmp/$name.out 2>/tmp/$name.err &
    command=$!
    wait_for " after " /tmp/$name.out
}}
# ended NAME: its exit code, and its last line.
ended() {{
    wait $command
    echo "$1.code: $?"
    echo "$1.err: $(tail -n 1 /tmp/$1.err)"
    wait_for state=empty $status
    echo "$1.governor: $(cat $cpuidle/current_governor)"
    echo "$1.shadow: $(cat $knobs/shadow)"
}}
"""

SCRIPT = """
load cpuidle_emul machine=skx
attempt module status
load cpuidle_lab
mount -t bpf bpf /sys/fs/bpf
cd /tmp
cp /lab/bpf/* .
attempt foreign run teo_ng.bpf.o
governor wteo
echo menu_ng >$knobs/shadow
attempt empty status
attempt nothing dump
attempt unpinned stop
attempt missing run nosuch.bpf.o
attempt lonely run /lab/lonely.bpf.o
attempt refused run pointer.bpf.o
attempt version run version.bpf.o

start shadow run teo_ng.bpf.o --watch
echo "shadow.list: $(cat $knobs/shadow)"
usleep 500000
echo "shadow.rows: $(grep -c 'bpf shadow' $knobs/shadow_stats)"
echo "shadow.status: $(bpf status --json | tr -d '\\n')"
attempt second run menu_ng.bpf.o
echo "second.kernel: $(cil-bpf attach menu_ng.bpf.o 2>/dev/null)"
cp wteo.json teo_ng.json
cp wteo.bpf.o teo_ng.bpf.o
wait_for "replaced in" /tmp/shadow.out
echo "replaced.name: $(grep name $status)"
attempt set set learning_rate=20 -o /tmp
echo "set.values: $(cat /sys/module/cpuidle_lab/parameters/bpf)"
attempt elsewhere set learning_rate=20
attempt range set learning_rate=99999 -o /tmp
attempt nonsense set nonsense=1 -o /tmp
attempt dump dump
echo "dump.cpus: $(bpf dump | grep -c -e '^cpu. active' -e '^cpu. shadow')"
echo garbage >teo_ng.bpf.o
wait_for "goes on" /tmp/shadow.err
echo "garbage.err: $(tail -n 1 /tmp/shadow.err)"
echo "garbage.name: $(grep name $status)"
kill -TERM $command
ended shadow

start use run menu_ng.bpf.o --use
echo "use.current: $(cat $cpuidle/current_governor)"
kill -9 $(pidof cil-bpf)
ended use
start gone run menu_ng.bpf.o --use
kill -9 $command
ended gone
governor wteo

attempt pin run wteo.bpf.o --use --pin
attempt pinned status
attempt again run wteo.bpf.o
attempt stop stop
wait_for state=empty $status
echo "stop.current: $(cat $cpuidle/current_governor)"
governor wteo

bpf run wteo.bpf.o --pin >/tmp/one 2>&1 &
one=$!
bpf run menu_ng.bpf.o --pin >/tmp/two 2>&1 &
wait $!
two=$?
wait $one
echo "both.codes: $(echo $two $? | tr ' ' '\\n' | sort | tr '\\n' ' ')"
echo "both.said: $(cat /tmp/one /tmp/two | grep -c -e 'attached already' )"
bpf stop
wait_for state=empty $status

echo 0 >/proc/sys/net/core/bpf_jit_enable
attempt jit run wteo.bpf.o
echo 1 >/proc/sys/net/core/bpf_jit_enable
chmod -R a+rX /lab /tmp
as_user() { /lab/bin/hint 65534 as python3.13 /lab/main.py bpf "$@"; }
echo "user.out: $(as_user run wteo.bpf.o 2>&1 | head -n 1)"
governor menu
tries=0
until rmmod cpuidle_lab 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail "the module does not go"
    usleep 50000
done
echo "reload: $tries"
insmod /lab/stripped.ko
attempt stripped run wteo.bpf.o
echo "end: $(dmesg | grep -c -e WARNING -e BUG)"
"""

OLD = """
load cpuidle_emul machine=skx
load cpuidle_lab
attempt status status
attempt run run /lab/bpf/teo_ng.bpf.o
governor wteo
echo "governor: $(cat $cpuidle/current_governor)"
"""


def without_btf(module: Path) -> bytes:
    """Return a module as a careless packager would strip it."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "stripped.ko"
        sections = ["-R", ".BTF", "-R", ".BTF.base"]
        subprocess.run(["objcopy", *sections, module, target], check=True)
        return target.read_bytes()


def guest(script: str, kernel: str, output: Path) -> dict[str, str]:
    """Run a script with the commands in the guest; return its lines "name: value"."""
    hostile = TOP / "tests/proofs/bpf/hostile"
    sources = [*(build.source_of(name) for name in ("teo_ng", "menu_ng", "wteo")),
               *(hostile / f"{name}.bpf.c" for name in ("pointer", "version"))]  # fmt: skip
    made = [build.build(source, build.GUEST_CPUS, output / "objects") for source in sources]
    # Objects are made here: the guest has no compiler.
    files = build.guest_files(made) | command_files()
    files |= {f"lab/bpf/{each.name}.json": each.path.with_name(f"{each.name}.json").read_bytes()
              for each in made}  # fmt: skip
    files["lab/lonely.bpf.o"] = made[0].path.read_bytes()
    files["lab/bin/hint"] = program("hint")
    files["usr/lib/cpuidle-lab/cil-bpf"] = build.loader().read_bytes()
    if kernel == "6.12":
        files["lab/stripped.ko"] = without_btf(images.modules(kernel).plain / "cpuidle_lab.ko")
    run = LabRun(
        script=FUNCTIONS + script, kernel=kernel, files=files, real_time=True, time_limit_s=1500
    )
    result: LabResult = run_lab(run, output / "results").check()
    lines = (line.split(": ", 1) for line in result.output.splitlines())
    return {line[0]: line[1] if len(line) > 1 else "" for line in lines}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what the commands said in one boot."""
    return guest(SCRIPT, "6.12", tmp_path_factory.mktemp("bpf"))


@pytest.mark.full
def test_a_shadow_is_watched_replaced_set_and_let_go(said: dict[str, str]) -> None:
    assert said["shadow.list"] == "menu_ng bpf"
    assert said["shadow.rows"] == "2"
    told = json.loads(said["shadow.status"])
    assert (told["state"], told["name"], told["pinned"]) == ("attached", "teo_ng", "no")
    assert int(told["decisions"]) > 0
    assert said["replaced.name"] == "name=wteo"
    assert said["set.code"] == "0", said["set.err"]
    assert " t0=20 " in said["set.values"]
    assert said["dump.cpus"] == "4"
    assert "not replaced: the object cannot be opened" in said["garbage.err"]
    assert said["garbage.name"] == "name=wteo"
    assert (said["shadow.code"], said["shadow.governor"]) == ("143", "wteo")
    assert said["shadow.shadow"] == "menu_ng"


@pytest.mark.full
def test_the_end_of_loader_or_command_detaches(said: dict[str, str]) -> None:
    assert said["use.current"] == "bpf"
    assert (said["use.code"], said["use.governor"]) == ("1", "wteo")
    assert "the loader was killed" in said["use.err"]
    assert (said["gone.code"], said["gone.governor"]) == ("137", "bpf")


@pytest.mark.full
def test_a_pinned_program_stays_until_it_is_stopped(said: dict[str, str]) -> None:
    assert said["pin.code"] == said["stop.code"] == "0", said["pin.err"]
    assert "attached already" in said["again.err"]
    assert "decides as teo_ng" in said["stop.out"]
    assert said["both.codes"].split() == ["0", "1"]
    assert said["both.said"] == "1"
    assert said["reload"].isdecimal()
    assert said["end"] == "0"


REFUSED = {
    "module": "the module is not loaded",
    "foreign": "menu decides now, and shadows decide beside a governor of this module alone",
    "nothing": "no program is attached",
    "unpinned": "no program is pinned",
    "missing": "there is no file nosuch.bpf.o",
    "lonely": "needs lonely.json beside it",
    "refused": "refuses the program: R2 invalid mem access 'scalar' (pointer.bpf.c:13)",
    "version": "it was built for another version of this module",
    "second": "teo_ng is attached already",
    "elsewhere": "-o names another folder",
    "range": "learning_rate must be ",
    "nonsense": "has no tunable 'nonsense'",
    "jit": "bpf_jit_enable=1",
    "stripped": "the kernel did not take the BTF of this module",
}


@pytest.mark.full
@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence(name: str, said: dict[str, str]) -> None:
    assert said[f"{name}.code"] in ("1", "2")
    assert said[f"{name}.out"] == ""
    assert REFUSED[name] in said[f"{name}.err"]
    # The verifier's last lines follow its sentence.
    assert (said[f"{name}.err_lines"] == "1") == (name != "refused")


@pytest.mark.full
def test_an_ordinary_user_gets_one_sentence(said: dict[str, str]) -> None:
    assert said["user.out"].endswith("cannot be read: run it with sudo")
    assert "Device or resource busy" in said["second.kernel"]


@pytest.mark.full
def test_a_kernel_without_such_programs_has_all_else(tmp_path: Path) -> None:
    said = guest(OLD, "6.1", tmp_path)
    assert said["governor"] == "wteo"
    for name in ("status", "run"):
        assert said[f"{name}.code"] == "1"
        assert (
            "the module was built without programs in BPF: the kernel 6.1." in said[f"{name}.err"]
        )


def prove(*arguments: str) -> dict[str, Any]:
    done = command.run("experiment", "bpf", "--json", *arguments)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.full
@pytest.mark.parametrize(
    ("kernel", "cpus"),
    [("6.12", "4"), ("7.2", "2"), pytest.param("rt", "2", marks=pytest.mark.own_kernel("rt"))],
)
def test_programs_decide_as_native_governors(kernel: str, cpus: str) -> None:
    found = prove("--periods", "100000", "--rounds", "3", "--kernel", kernel, "--cpus", cpus)
    assert found["faults"] == []
