# SPDX-License-Identifier: GPL-2.0
"""Machines of sysfs, YAML, the kernel's drivers and device trees, and in the lab."""

import json
import struct
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.host import idle_states
from cpuidle_lab.host.machine import Host as Host
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.lab.session import emulated
from cpuidle_lab.recording import state_tables
from cpuidle_lab.recording.stock import context_of
from cpuidle_lab.states import kernel_tables, machines
from cpuidle_lab.states.table import check_table
from tests.unit import recorded
from tests.unit.kernel_events import MS


def test_the_recorded_machines_can_all_be_replayed() -> None:
    found = list(machines.recorded())
    assert len(found) == 45
    for known in found:
        check_table(Path(known.name), known.table)


def test_this_machine_is_read_from_sysfs(tmp_path: Path) -> None:
    root = recorded.unfold("debian13", tmp_path / "machine")
    folder = root / "sys/devices/system/cpu/cpu1/cpuidle/state0"
    folder.mkdir(parents=True)
    for name, value in (("name", "C6 x"), ("latency", "5"), ("residency", "7"), ("disable", "1")):
        (folder / name).write_text(f"{value}\n")
    (root / "dev").mkdir()
    (root / "dev/cpu_dma_latency").write_bytes(struct.pack("=i", 20))
    lines = idle_states.lines(Host(Tree(root)))
    assert lines == [
        "stock machine cpus=0-0 tick_ns=4000000 latency_req_us=20 disabled=0x0 "
        "states=POLL:0:0:0,C1:2:2:0,C1E:10:20:0,C6:133:600:0",
        "stock machine cpus=1-1 tick_ns=4000000 latency_req_us=20 disabled=0x1 states=C6_x:5:7:0",
    ]


def test_a_machine_is_read_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "hz: 1000\nstates:\n"
        "- {name: WFI, exit_latency_us: 1, target_residency_us: 1, power_mw: 80}\n"
        "- {name: off, exit_latency_us: 147, target_residency_us: 2580, power_mw: 9}\n"
    )
    machine = state_tables.find(str(path))
    assert machine.tick_ns == MS and machine.polling == (False, False)
    assert machine.target_residency_ns == (1000, 2_580_000)


@pytest.mark.parametrize(
    "content",
    ["", "a: 1", "states: 5", "states:\n- {name: A}", "\0", "[[[",
     pytest.param("[" * 3000, id="nested")],
)  # fmt: skip
def test_a_file_that_is_no_machine_is_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match="is no machine"):
        state_tables.find(str(path))


@pytest.mark.parametrize("power_mw", [-5, 2**32 // 1000 + 1, 99_999_999_999_999])
def test_an_impossible_power_is_refused(tmp_path: Path, power_mw: int) -> None:
    path = tmp_path / "mine.yaml"
    state = "{{name: A, exit_latency_us: 1, target_residency_us: 1, power_mw: {}}}"
    path.write_text(f"states:\n- {state.format(power_mw)}\n")
    with pytest.raises(UserError, match=r"impossible powers|power_mw is out of range"):
        state_tables.find(str(path))
    line = f"stock machine cpus=0-0 tick_ns=4000000 states=A:1:1:{power_mw}"
    with pytest.raises(UserError, match="impossible powers"):
        context_of(path, [(0, line)])
    path.write_text(f"states:\n- {state.format(2**32 // 1000)}\n")
    assert state_tables.find(str(path)).power_uw == (2**32 // 1000 * 1000,)


def test_tables_of_the_kernels_driver_are_read() -> None:
    source = """
static struct cpuidle_state skx_cstates[] __initdata = {
	{
		.name = "C1",
		.flags = MWAIT2flg(0x00),
		.exit_latency = 2,
		.target_residency = 3,
		.enter = intel_idle, },
	{
		.name = "C6",
		.exit_latency = 133,
		.target_residency = 600, },
	{
		.enter = NULL }
};
"""
    found = kernel_tables.read_intel_idle(source)
    assert found == {"skx": (("POLL", 0, 0), ("C1", 2, 3), ("C6", 133, 600))}


def test_tables_of_device_trees_are_read() -> None:
    source = """
	cpus { /* two kinds */
		cpu@0 { cpu-idle-states = <&little &gone>; };
		cpu@1 { cpu-idle-states = <&little>; };
		cpu@2 { cpu-idle-states = <&big>; };
		idle-states {
			little: cpu-sleep { compatible = "arm,idle-state";
				entry-latency-us = <100>; exit-latency-us = <200>; min-residency-us = <0x10>; };
			big: big-sleep { compatible = "arm,idle-state"; idle-state-name = "deep";
				wakeup-latency-us = <40>; exit-latency-us = <7>; min-residency-us = <900>; };
		};
	};"""
    found = kernel_tables.read_dts(source, "soc")
    assert found == {
        "soc-1": (("WFI", 1, 1), ("cpu-sleep", 300, 16)),
        "soc-2": (("WFI", 1, 1), ("deep", 40, 900)),
    }


def test_machines_lists_shows_and_compares(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    assert "pepc:genoa0" in capsys.readouterr().out
    assert main(["machines", "skx", "pepc:genoa0"]) == 0
    assert "C1 to C2, 800 times" in capsys.readouterr().out
    assert main(["machines", "pepc:genoa0", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["machines"]
    assert found["powers_derived"] and found["states"][2]["target_residency_us"] == 1600
    assert main(["machines", "pepc:genao0"]) == 2
    assert "did you mean 'pepc:genoa0'?" in capsys.readouterr().err


# ---- Machines in the lab ----


def test_a_machine_of_any_source_becomes_parameters_of_the_emulator(tmp_path: Path) -> None:
    assert emulated("gnr") == "machine=gnr"
    assert emulated("pepc:genoa0") == "states=C1:1:2,C2:800:1600"
    own = tmp_path / "own.yaml"
    own.write_text(
        "states:\n"
        "- {name: WFI, exit_latency_us: 1, target_residency_us: 1, power_mw: 700}\n"
        "- {name: deep, exit_latency_us: 40, target_residency_us: 200, power_mw: 30}\n"
    )
    assert emulated(str(own)) == "states=WFI:1:1:700,deep:40:200:30 poll=none"


@pytest.mark.parametrize(
    ("name", "exit_us", "target_us", "message"),
    [
        ("a", 30, 20, "target residency is below its exit latency"),
        ("a", 200_000, 300_000, "exit latency is not 1 to 100000 us"),
        ("WFI", 3, 20, "another state has its name"),
    ],
)
def test_a_machine_that_cannot_be_emulated_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, exit_us: int, target_us: int,
    message: str,
) -> None:  # fmt: skip
    own = tmp_path / "own.yaml"
    own.write_text(
        "states:\n- {name: WFI, exit_latency_us: 1, target_residency_us: 1}\n"
        f"- {{name: {name}, exit_latency_us: {exit_us}, target_residency_us: {target_us}}}\n"
    )
    assert main(["lab", "--machine", str(own), "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
