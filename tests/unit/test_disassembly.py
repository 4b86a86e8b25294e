# SPDX-License-Identifier: GPL-2.0
"""Machine code of the module: no indirect branch into the kernel, no cost untraced."""

import re
import subprocess
from functools import cache

import pytest

from cpuidle_lab.lab import images

pytestmark = pytest.mark.lab

kernels = pytest.mark.parametrize("kernel", images.FLAVOURS)

# The places that may branch indirectly, and whose address they branch to.
INDIRECT = {
    # Policy callbacks: functions of the module itself.
    "cil_glue_select": "select, update, init of a policy; base->select",
    "account_outcome": "update of a policy",
    "start_afresh": "init of a policy",
    "decide_by_policy": "select of a policy",
    "__cil_emit_outcome": "row_learned of a policy",
    "decide_one": "init, update, select of a policy, for a shadow",
    "state_show": "dump of a policy",
    # Other functions of the module.
    "cil_tunables_apply": "changed of a governor",
    "cil_tunables_defaults": "changed of a governor",
    "param_get": "print of a setting",
    "param_set": "set of a setting",
    "ops_reg": "attach and replace of the governor bpf",
    "ops_unreg": "attach and replace of the governor bpf",
    "ops_update": "attach and replace of the governor bpf",
    # Programs in BPF, which the kernel has verified and reaches by its own trampolines.
    "cil_bpf_prepare": "init of a program",
    "bpf_select": "select of a program",
    "bpf_update": "update of a program",
    "cil_bpf_read_state": "read of a program",
    # Callbacks of a kernel governor, which the kernel itself calls by pointer.
    "decide_by_base": "base->select",
    "cil_glue_reflect": "base->reflect",
    "cil_glue_enable": "base->enable",
    "cil_glue_disable": "base->disable",
    # The last reference on a cgroup, which the kernel itself releases by pointer.
    "drop_cgroup": "release of a percpu_ref",
    # Interrupts off and on, as the hypervisor likes it; replaced when the module is loaded.
    "holder_step": "pv_ops.irq",
    "probe_exit": "pv_ops.irq",
    "probe_exit_dead": "pv_ops.irq",
}
# The kernel's own machinery behind each tracepoint.
INDIRECT_BY_KERNEL = re.compile(r"__traceiter_\w+|__bpf_trace_\w+|perf_trace_\w+")

BRANCH = re.compile(r"\t(?:call|jmp) +\*|__x86_indirect_(?:thunk_\w+|call_thunk|jump_thunk)")


@cache
def functions(kernel: str) -> dict[str, list[str]]:
    """Return the disassembly of cpuidle_lab.ko, a list of lines for each function."""
    module = images.modules(kernel).plain / "cpuidle_lab.ko"
    dump = subprocess.run(
        ["objdump", "-dr", "--no-show-raw-insn", module], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in dump.splitlines():
        if match := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            lines = found.setdefault(re.sub(r"\.(?:cold|isra|part|constprop).*", "", match[1]), [])
        lines.append(line)
    return found


@kernels
def test_indirect_branches_only_where_listed(kernel: str) -> None:
    places = {name for name, lines in functions(kernel).items() if any(map(BRANCH.search, lines))}
    assert "cil_glue_select" in places, "the pattern finds nothing any more"
    foreign = {name for name in places if not INDIRECT_BY_KERNEL.fullmatch(name)}
    assert foreign - set(INDIRECT) == set()


@kernels
def test_kernel_functions_are_called_directly(kernel: str) -> None:
    """Every use of a function that is not exported is a call of its static-call trampoline."""
    text = {name: "\n".join(lines) for name, lines in functions(kernel).items()}
    select = text["cil_glue_select"]
    assert re.search(r"R_X86_64_PLT32\s+__SCT__cil_latency_req", select)
    assert re.search(r"R_X86_64_PLT32\s+__SCT__cil_tick_stopped", select)
    assert re.search(r"R_X86_64_PLT32\s+__SCT__cil_got_tick", text["cil_glue_reflect"])
    read = text["cil_timers_read"] + text["cil_env_sleep_length"]
    assert re.search(r"R_X86_64_PLT32\s+__SCT__cil_sleep_length", read)


def run(*command: object) -> str:
    """Return the output of a command."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@kernels
def static_branches(kernel: str, function: str) -> list[tuple[int, str]]:
    """Return address and key of the static branches in a function, all of them untaken.

    The kernel's table of patched jumps lists the instruction and the key of each.
    """
    module = images.modules(kernel).plain / "cpuidle_lab.ko"
    symbols = run("nm", "-S", module)
    match = re.search(rf"^([0-9a-f]+) ([0-9a-f]+) [tT] {function}$", symbols, re.MULTILINE)
    assert match and match[1]
    begin = int(match[1], 16)
    end = begin + int(match[2], 16)
    table = run("objdump", "-r", "-j", "__jump_table", module)
    entries = re.findall(
        r"R_X86_64_PC32\s+\.text\+0x([0-9a-f]+)\n.*\n.*R_X86_64_PC64\s+(\w+)", table
    )
    found = [(int(address, 16), key) for address, key in entries]
    inside = [(address, key) for address, key in found if begin <= address < end]
    lines = functions(kernel)[function]
    for address, _ in inside:
        (instruction,) = (line for line in lines if line.lstrip().startswith(f"{address:x}:"))
        assert re.search(r"\t(?:nop|xchg +%ax,%ax|data16)", instruction), instruction
    return inside


@kernels
def test_events_cost_a_patched_branch_when_off(kernel: str) -> None:
    """With the events off, a decision passes a no-operation for each, and reads no flag."""
    keys = [key for _, key in static_branches(kernel, "cil_glue_select")]
    events = [key.removeprefix("__tracepoint_") for key in keys if key.startswith("__tracepoint_")]
    assert events.count("cil_decision") == 2  # checkpoint and decision
    assert set(events) == {"cil_decision", "cil_outcome", "cil_weights"}

    lines = functions(kernel)["cil_glue_select"]
    emitters = [line for line in lines if re.search(r"\t__cil_emit_\w+-", line)]
    assert len(emitters) == 3, "checkpoint, decision and outcome"
    assert not [line for line in lines if "__tracepoint_" in line], "a flag is read"


@kernels
def test_shadow_mode_costs_a_patched_branch_when_off(kernel: str) -> None:
    """Without shadows, a decision passes one no-operation, a question for the timer none."""
    keys = [key for _, key in static_branches(kernel, "cil_glue_select")]
    assert keys.count("cil_shadow_on") == 1
    assert not [line for line in functions(kernel)["cil_glue_select"] if "cil_shadow_on" in line]
    assert static_branches(kernel, "cil_env_sleep_length") == []
    reflect = "\n".join(functions(kernel)["cil_glue_reflect"])
    assert "shadow" not in reflect
    assert static_branches(kernel, "cil_glue_reflect") == []


@kernels
def test_built_without_warnings(kernel: str) -> None:
    log = images.modules(kernel).log.read_text()
    assert not [line for line in log.splitlines() if re.search(r"\bwarning\b", line, re.IGNORECASE)]
