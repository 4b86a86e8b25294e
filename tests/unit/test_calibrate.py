# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab calibrate`: its arithmetic, and that it leaves a recorded machine as it was."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest
import yaml

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.calibrate import isolate, measure, model, result
from cpuidle_lab.calibrate.model import State, Stretch, fit, judge, latencies, mean_of
from cpuidle_lab.cli import main
from cpuidle_lab.commands import calibrate
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.recording import state_tables
from cpuidle_lab.view.html_page import generator
from tests.unit import recorded

PACKAGE = Path(__file__).parents[2] / "tools"
BUSY = 4000.0
FEW = ("--wakeups", "20")

# Prints how late a wake-up is: 3 us and twice the exit latency of the state that is enabled. A load
# is time in that state; the hardware's counters are those of the file "counters".
PROGRAM = """\
#!/bin/sh
root=$CPUIDLE_LAB_ROOT/sys/devices/system/cpu
if [ "$1" = load ]; then
	for state in "$root"/cpu*/cpuidle/state*; do
		[ "$(cat "$state/disable")" = 1 ] || echo $((1000000 * $3)) >"$state/time"
	done
	cat "$CPUIDLE_LAB_ROOT/counters" 2>/dev/null
	exit 0
fi
for state in "$root"/cpu0/cpuidle/state*; do
	[ "$(cat "$state/disable")" = 0 ] && latency=$(cat "$state/latency")
done
n=0
while [ $n -lt "$7" ]; do
	echo $((3000 + 1000 * latency * 2))
	n=$((n + 1))
done
"""


def stretches(power_mw: float, entry_nj: float, noise: float = 0.0) -> list[Stretch]:
    r = random.Random(7)
    found = []
    for entries in (20, 200, 2000):
        busy_us = 8.0 * entries
        time_us = 2e6 - busy_us
        spent = BUSY * busy_us + power_mw * time_us + entry_nj * entries
        found.append(Stretch(spent * (1 + r.gauss(0, noise)), time_us, entries, busy_us, 0))
    return found


def test_powers_and_entry_energies_are_recovered() -> None:
    for power, entry in ((1400.0, 5200.0), (100.0, 495_200.0), (20.0, 0.0)):
        assert fit(stretches(power, entry), BUSY) == pytest.approx((power, entry), abs=1e-3)


def test_stretches_that_do_not_differ_tell_nothing() -> None:
    with pytest.raises(ValueError, match="do not differ"):
        fit(stretches(100, 5000)[:1] * 3, BUSY)


def test_the_interval_is_students() -> None:
    found = mean_of([9.0, 10.0, 11.0])
    assert (found.value, found.half) == pytest.approx((10, 4.30 / 3**0.5), rel=1e-3)
    assert mean_of([5.0]).half == float("inf")


def made(*figures: tuple[str, float, float]) -> list[State]:
    """Return measured states: name, power in mW, entry energy in nJ."""
    states = [State(name, 1, 1) for name, _, _ in figures]
    for state, (_, power, entry) in zip(states, figures, strict=True):
        state.repetitions = [(power * k, entry * k) for k in (0.9999, 1.0, 1.0001)]
    judge(states)
    return states


def test_break_even_is_where_the_costs_are_equal() -> None:
    states = made(("POLL", 4000, 0), ("C1", 1500, 50_000), ("C6", 500, 550_000))
    points = [state.break_even_us and state.break_even_us.value for state in states]
    assert points[0] is None and points[1:] == [pytest.approx(20), pytest.approx(500)]
    assert [state.pays_against for state in states] == ["", "POLL", "C1"]


def test_a_state_that_draws_no_less_never_pays() -> None:
    states = made(("POLL", 4000, 0), ("C1", 1500, 5000), ("C6", 1500, 90_000), ("C7", 200, 1e6))
    assert [state.never_pays for state in states] == [False, False, True, False]
    assert states[3].pays_against == "C1"


def test_a_state_between_two_better_ones_never_pays() -> None:
    # C1E pays against C1 after 1000 us; C6 pays against C1 after 375 us already.
    states = made(("C1", 1000, 0), ("C1E", 900, 100_000), ("C6", 200, 300_000))
    assert [state.never_pays for state in states] == [False, True, False]
    assert states[1].break_even_us is None and states[2].pays_against == "C1"


def test_latency_is_lateness_against_the_shallowest() -> None:
    poll, deep = State("POLL", 0, 0), State("C6", 133, 600)
    poll.late_us["timer asleep"] = [3.0, 4.0, 5.0]
    deep.late_us["timer asleep"] = [94.0, 99.0, 194.0]
    assert latencies(deep, poll, "timer asleep") == (95, 190)
    assert latencies(deep, poll, "ipi asleep") is None
    assert latencies(poll, State("WFI", 1, 1), "timer asleep") is None


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold an idle machine without an energy counter; the program is a stand-in."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    (root / "run").mkdir(exist_ok=True)
    for cpu in (root / "sys/devices/system/cpu").glob("cpu[0-9]*"):
        for state in (cpu / "cpuidle").glob("state*"):
            for name in ("disable", "time", "usage"):
                (state / name).write_text("0\n")
    first = root / "sys/devices/system/cpu/cpu0/cpuidle/state1/disable"
    first.write_text("1\n")
    (root / "proc/stat").write_text("cpu 10 0 10 1000 0 0 0 0 0 0\n")
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setattr(calibrate, "program", lambda: program)
    monkeypatch.setattr(calibrate, "load", lambda _: 0.01)
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(root))
    return root


def settings(root: Path) -> dict[str, str]:
    files = (root / "sys/devices/system/cpu").glob("cpu*/cpuidle/state*/disable")
    return {str(path): path.read_text().strip() for path in files}


def test_latencies_alone_without_an_energy_counter(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings(root)
    target, page = tmp_path / "machine.yaml", tmp_path / "machine.html"
    assert main(["calibrate", *FEW, "--json", "-o", str(target), "--page", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert settings(root) == before and not (root / "run/cpuidle-lab-calibrate.json").exists()
    assert any("no powercap zone" in note for note in found["notes"])
    # Commands take the file as a machine.
    assert state_tables.find(str(target)).names == tuple(state["name"] for state in found["states"])
    states = yaml.safe_load(target.read_text())["states"]
    for state, measured in zip(states, found["states"], strict=True):
        table = measured["table"]
        # The stand-in is late by twice the table's latency.
        assert state["exit_latency_us"] == 2 * table["exit_latency_us"]
        assert state["target_residency_us"] >= table["target_residency_us"]
        assert "power_mw" not in state and measured["power_mw"] is None
        assert measured["name"] in page.read_text()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    assert main(["calibrate", *FEW, *arguments]) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return said


def test_a_busy_machine_is_refused_or_its_figures_are_unsure(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "load", lambda _: 0.31)
    before = settings(root)
    assert "31 % busy" in refused(capsys)
    assert main(["calibrate", "--force", *FEW]) == 0
    assert "unsure" in capsys.readouterr().out
    assert settings(root) == before


def test_the_load_is_that_of_proc_stat(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    def work(_: float) -> None:
        (root / "proc/stat").write_text("cpu 40 0 10 1060 10 0 0 0 0 0\n")

    monkeypatch.setattr("cpuidle_lab.commands.calibrate.time.sleep", work)
    assert calibrate.load(Tree(root)) == pytest.approx(0.3)


def test_a_program_that_fails_leaves_the_settings(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings(root)
    (tmp_path / "program").write_text("#!/bin/sh\necho 'cannot use SCHED_FIFO' >&2\nexit 1\n")
    assert "SCHED_FIFO" in refused(capsys)
    assert settings(root) == before


def test_two_at_once_are_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with isolate.alone(Tree(root)):
        assert "another calibration" in refused(capsys)
    assert main(["calibrate", *FEW]) == 0


def test_without_idle_states_there_is_nothing_to_measure(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["sh", "-c", f"rm -r {root}/sys/devices/system/cpu/cpu*/cpuidle"], check=True)
    assert "no idle states" in refused(capsys)


def test_files_that_exist_are_kept(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "mine.yaml"
    target.write_text("mine")
    assert "exists" in refused(capsys, "-o", str(target), code=2)
    assert "exists" in refused(capsys, "-o", str(target), "--force", code=2)
    assert "directory" in refused(capsys, "-o", str(tmp_path), code=2)
    assert target.read_text() == "mine"


def test_a_full_run_directory_changes_nothing(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = settings(root)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device", "/run")

    monkeypatch.setattr("cpuidle_lab.calibrate.isolate.os.fsync", full)
    assert "No space left" in refused(capsys)
    assert settings(root) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_the_settings_or_the_next_mends(
    root: Path, tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings(root)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/there\nexec sleep 15\n")
    code = (
        "import sys; from pathlib import Path; from cpuidle_lab.commands import calibrate\n"
        f"calibrate.program = lambda: Path({str(program)!r})\n"
        "calibrate.load = lambda _: 0.0\n"
        "from cpuidle_lab.cli import main; sys.exit(main(['calibrate']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(PACKAGE)}
    )
    while not (tmp_path / "there").exists():
        assert process.poll() is None
        time.sleep(0.02)
    assert settings(root) != before
    process.send_signal(number)
    code_of = process.wait(10)
    if number != signal.SIGKILL:
        assert code_of == 128 + number
        assert settings(root) == before
        return
    assert settings(root) != before
    program.write_text(PROGRAM)
    assert main(["calibrate", *FEW]) == 0
    assert "a calibration was killed" in capsys.readouterr().err
    assert settings(root) == before


@pytest.mark.parametrize(
    "text", ["", "{}", '{"settings": {"/etc/passwd": "1"}}', '{"settings": {}}', "[1]"]
)
def test_a_damaged_note_is_not_followed(
    root: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    note = root / "run/cpuidle-lab-calibrate.json"
    note.write_text(text)
    before = settings(root)
    assert "is damaged" in refused(capsys)
    assert settings(root) == before and note.read_text() == text


def test_a_setting_that_the_kernel_does_not_keep_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings(root)
    write = Tree.write

    def stubborn(tree: Tree, name: str, text: str) -> None:
        if "state2" not in name:
            write(tree, name, text)

    monkeypatch.setattr(Tree, "write", stubborn)
    assert "does not keep" in refused(capsys)
    assert settings(root) == before


def test_a_mended_machine_needs_no_second_mending(root: Path) -> None:
    tree = Tree(root)
    with pytest.raises(UserError), isolate.isolation(tree, isolate.online(tree), 4):
        raise UserError("stop")
    assert isolate.mend(tree) == 0
    assert model.quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0


def killed_at(step: int, patch: pytest.MonkeyPatch) -> bool:
    """Calibrate in a child that dies at a step that changes files; return whether it came there."""
    steps = 0

    def counted(do: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            if steps == step:
                os._exit(9)
            steps += 1
            return do(*arguments, **named)

        return count

    child = os.fork()
    if not child:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        patch.setattr(Tree, "write", counted(Tree.write))
        patch.setattr(os, "fsync", counted(os.fsync))
        patch.setattr(Path, "replace", counted(Path.replace))
        patch.setattr(Path, "unlink", counted(Path.unlink))
        os._exit(main(["calibrate", *FEW]))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def test_a_kill_at_any_step_is_mended(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the note, while it is written, at each change, and while the settings come back."""
    (tmp_path / "program").write_text('#!/bin/sh\n[ "$1" = load ] || echo 3000\n')
    before = settings(root)
    changed = step = 0
    while killed_at(step, monkeypatch):
        changed += settings(root) != before
        isolate.mend(Tree(root))
        assert settings(root) == before, step
        assert not (root / isolate.STATE.lstrip("/")).exists()
        step += 1
    assert settings(root) == before
    assert step > changed > 15


@pytest.mark.parametrize("error", [RuntimeError("a bug"), MemoryError(), UserError("stop")])
def test_a_crash_in_the_middle_leaves_the_settings(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    before = settings(root)

    def crash(*_: object) -> None:
        assert settings(root) != before
        raise error

    monkeypatch.setattr(measure, "measure_stays", crash)
    if isinstance(error, UserError):
        assert main(["calibrate", *FEW]) == 1
    else:
        with pytest.raises(type(error)):
            main(["calibrate", *FEW])
    assert settings(root) == before and isolate.mend(Tree(root)) == 0


def test_a_state_that_sysfs_cannot_disable_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings(root)
    allowed = Tree.may_write
    monkeypatch.setattr(
        Tree, "may_write", lambda tree, name: "state2" not in name and allowed(tree, name)
    )
    said = refused(capsys)
    assert "cpu0/cpuidle/state2/disable: cannot be written" in said
    monkeypatch.undo()
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(root))
    assert settings(root) == before
    (root / "sys/devices/system/cpu/cpu0/cpuidle/state2/disable").unlink()
    monkeypatch.setattr(calibrate, "load", lambda _: 0.0)
    assert "state2/disable: cannot be written" in refused(capsys)
    assert not (root / isolate.STATE.lstrip("/")).exists()


def test_a_change_that_the_kernel_refuses_is_taken_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings(root)
    write = Tree.write

    def refusing(tree: Tree, name: str, text: str) -> None:
        if "state2" in name:
            raise UserError(f"cannot write '{text}' to {name}: the kernel refuses it")
        write(tree, name, text)

    monkeypatch.setattr(Tree, "write", refusing)
    assert "the kernel refuses it" in refused(capsys)
    assert settings(root) == before


def test_without_root_nothing_is_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Tree, "is_recorded", False)
    assert "needs root" in refused(capsys)


def test_a_full_disk_does_not_cost_the_measurement(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings(root)
    target = tmp_path / "machine.yaml"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", full)
    monkeypatch.setattr(isolate, "_remember", lambda *_: None)
    assert main(["calibrate", *FEW, "-o", str(target)]) == 1
    said = capsys.readouterr()
    assert "C6" in said.out and "No space left" in said.err and said.err.count("\n") == 1
    assert settings(root) == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["program"]


def test_a_directory_that_cannot_be_written_is_refused_at_the_start(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    said = refused(capsys, "--page", str(tmp_path / "page.html"), code=2)
    assert "not writable" in said


def test_a_state_that_never_pays_is_said_to_be_one() -> None:
    states = made(("POLL", 4000, 0), ("C1", 1500, 5000), ("C6", 1500, 90_000), ("C7", 200, 1e6))
    states[0].table_latency_us = 0
    notes = calibrate._notes(states, ("intel-rapl:0",), 0.0)
    assert "C6: never pays: no stay makes it the cheapest state" in notes
    found = result.Calibration(
        states, "6.12", "intel_idle", 2, 1000, 4000, ("intel-rapl:0",), 0.0, notes
    )
    assert [row[0] for row in result.rows(found) if "never pays" in row] == ["C6"]
    assert [state["name"] for state in result.as_json(found)["states"] if state["never_pays"]] == [
        "C6"
    ]
    page = result.as_page(found)
    assert '<tr class="off"><td>C6</td>' in page
    # The page is that of html_page, with all of the text in it, and without code for charts.
    assert generator("calibrate") in page and "Plotly =" not in page
    cells = [*result.HEAD, *(cell for row in result.rows(found) for cell in row)]
    assert all(escape(text) in page for text in [*cells, *notes, "intel_idle, Linux 6.12, 2 CPUs"])
    written = {state["name"]: state for state in yaml.safe_load(result.as_machine(found))["states"]}
    assert written["C6"]["target_residency_us"] == 1_000_000
    assert written["C1"]["target_residency_us"] < 1000 <= written["C7"]["target_residency_us"]


def test_the_page_needs_no_python_package() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(PACKAGE)!r})
from cpuidle_lab.calibrate import model, result
states = [model.State("C1", 2, 2)]
print(result.as_page(result.Calibration(states, "6.12", "intel_idle", 2, 250, None, (), 0.0, [])))
"""
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "" and generator("calibrate") in done.stdout


def test_the_machine_file_has_the_measured_figures_for_replay(tmp_path: Path) -> None:
    states = made(("POLL", 4000, 0), ("C1", 1500, 50_000), ("C6", 500, 550_000))
    states[0].table_latency_us = 0
    for state, late_us in zip(states, (4.0, 6.0, 99.0), strict=True):
        state.late_us["timer asleep"] = [late_us] * 3
    found = result.Calibration(
        states, "6.12", "intel_idle", 2, 1000, 4000, ("intel-rapl:0",), 0.0, []
    )
    target = tmp_path / "machine.yaml"
    target.write_text(result.as_machine(found))
    machine = state_tables.find(str(target))
    assert machine.tick_ns == 1_000_000
    assert machine.exit_latency_ns == (0, 2000, 95_000)
    assert machine.target_residency_ns == pytest.approx((0, 20_000, 500_000))
    assert machine.power_uw == (4_000_000, 1_500_000, 500_000)
    assert machine.polling == (True, False, False)


@pytest.mark.parametrize(
    ("figures", "powers_uw", "remark"),
    [
        ((4.0, 2.9, 0.4), (4000, 2900, 400), ""),
        # A state that draws more than a shallower one never pays, and counts as equal.
        ((4000, 1500, 1600), (4_000_000, 1_500_000, 1_500_000), "never pays, measured 1600.0 mW"),
        ((4000, None, 500), (0, 0, 0), "measured 500.0 mW"),
    ],
)
def test_the_machine_file_has_the_powers_of_all_states_or_of_none(
    tmp_path: Path, figures: tuple[float | None, ...], powers_uw: tuple[int, ...], remark: str
) -> None:
    states = made(*((f"S{k}", power or 700, 100 * k) for k, power in enumerate(figures)))
    for state, power in zip(states, figures, strict=True):
        if power is None:
            state.power_mw = None
    found = result.Calibration(states, "6.12", "x", 2, 1000, 4000, ("intel-rapl:0",), 0.0, [])
    target = tmp_path / "machine.yaml"
    target.write_text(result.as_machine(found))
    assert state_tables.find(str(target)).power_uw == powers_uw
    assert remark in target.read_text()
