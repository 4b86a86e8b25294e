# SPDX-License-Identifier: GPL-2.0
"""The first report in a guest's log, and the operations before it."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.lab import LabResult
from cpuidle_lab.lab.machine import ran_stale_code

# Of the machine that is judged: its log is kept whole, and a host that does other things is no
# stall of the guest's.
OPTIONS = ("log_buf_len=64M", "rcupdate.rcu_cpu_stall_timeout=120", "watchdog_thresh=60")

# For the guest: what is left when both modules have gone.
LEFT = Path(__file__).with_name("left.sh").read_text()

# Warnings in the log that are none: foreign modules, refused parameters, a starved host, on
# which the firmware's loops give up, too, when the disk resumes, and interrupts for all CPUs, which
# QEMU gives to one that is just starting, too.
EXPECTED = (
    r"out-of-tree module|module verification failed|no longer affine to cpu"
    r"|hrtimer: interrupt took|perf: interrupt took too long"
    r"|clocksource: |sched: DL replenish|FAULT_INJECTION"
    r"|cpuidle_lab: \w+: no tunable \w+, or its value|cpuidle_lab: gate: there is no base governor"
    r"|cpuidle_lab: bpf: \w+ is (taken off|refused)"
    r"|APIC: Stale IRR: "
    r"|cpuidle_emul: domains: CPU [0-9]+ of 'b' is not there"
    r"|AE_AML_LOOP_TIMEOUT|derive routing for PCI INT A|PCI INT A: no GSI"
)
# Words of the checkers, where any other warning is expected because memory is refused.
SPLAT = re.compile(r"WARNING: |BUG: |INFO: |UBSAN: |ODEBUG: |Oops: |corruption|general protection")
OPERATION = re.compile(r"^<\d+>\[.*?\] storm: (.*)")
LINE = re.compile(r"^<(\d+)>(.*)")
WARNING_LEVEL = 4
CHECKED = re.compile(r"^lab: checked (\d+)", re.MULTILINE)
RACE = "BUG: KCSAN:"
RULE = "=" * 20
MODULES = ("[cpuidle_lab]", "[cpuidle_emul]")
LINES_SHOWN = 60
OPERATIONS_SHOWN = 12


@dataclass(frozen=True)
class Verdict:
    """Verdict on a storm.

    Attributes:
        failure: one sentence, empty if all is well.
        report: the first report, as lines of the log.
        before: the operations that began before it, the last one last.
        foreign: data races in which no module of ours has a part.
        recounts: times that the counts of hints were compared, and agreed.
        done: per operation, how often it ran and how often it succeeded.
        boots: of which this is the last one; see checked_before_stale_code().
    """

    failure: str
    report: list[str]
    before: list[str]
    foreign: int
    recounts: int
    done: dict[str, tuple[int, int]]
    boots: int = 1


def checked_before_stale_code(console: str) -> int | None:
    """Return how many rounds a machine was checked after that its emulator ended by stale code.

    Args:
        console: of the machine.

    Returns:
        None if it did not die of that.
    """
    if not ran_stale_code(console):
        return None
    return max(map(int, CHECKED.findall(console)), default=0)


def judge(result: LabResult, only: re.Pattern[str] | None = None) -> Verdict:
    """Return the verdict on a guest that came to its end.

    Args:
        result: of the guest.
        only: a warning that does not match it is no report.
    """
    lines = result.dmesg.splitlines()
    first, foreign = first_report(lines, only)
    failure, report = "", []
    if first is not None:
        report = [line.partition("] ")[2] or line for line in lines[first : first + LINES_SHOWN]]
        report = [line for line in report if not line.startswith("storm: ")]
        failure = f"the kernel reports: {report[0]}"
    elif result.status:
        failure = _text(result, "error") or "the guest's script failed: " + result.output[-300:]
    else:
        for name, what in (
            ("left", "left behind"),
            ("leaks-loaded", "lost memory"),
            ("leaks-gone", "lost memory, seen after unloading"),
        ):
            if text := _text(result, name):
                failure, report = f"{what}: {text.splitlines()[0]}", text.splitlines()
                break
    before = [found[1] for line in lines[:first] if (found := OPERATION.match(line))]
    recounts = len(_text(result, "recounts").splitlines())
    return Verdict(
        failure, report[:LINES_SHOWN], before[-OPERATIONS_SHOWN:], foreign, recounts, _done(result)
    )


def first_report(lines: list[str], only: re.Pattern[str] | None = None) -> tuple[int | None, int]:
    """Return where the first report in a log begins, and the number of races that are not ours.

    Args:
        lines: of the log, "<level>[time] text".
        only: see judge().
    """
    foreign = 0
    skip = 0
    for number, line in enumerate(lines):
        parts = LINE.match(line)
        if number < skip or not parts or int(parts[1]) & 7 > WARNING_LEVEL:
            continue
        if re.search(EXPECTED, line) or not parts[2].partition("]")[2].strip():
            continue
        if only and not only.search(line):
            continue
        block = _race(lines, number)
        if block and not any(name in text for text in block for name in MODULES):
            foreign += 1
            skip = number + len(block)
            continue
        return number, foreign
    return None, foreign


def _race(lines: list[str], start: int) -> list[str]:
    """Return the lines of the report of a data race that begins there, or none."""
    if not any(RACE in line for line in lines[start : start + 2]):
        return []
    block = lines[start : start + 2]
    for line in lines[start + 2 :]:
        block.append(line)
        if RULE in line:
            break
    return block


def _text(result: LabResult, name: str) -> str:
    path: Path = result.files / name
    return path.read_text(errors="replace").strip() if path.exists() else ""


def _done(result: LabResult) -> dict[str, tuple[int, int]]:
    ran: Counter[str] = Counter()
    succeeded: Counter[str] = Counter()
    for line in _text(result, "done").splitlines():
        name, status = line.split()
        ran[name] += 1
        succeeded[name] += status == "0"
    return {name: (ran[name], succeeded[name]) for name in sorted(ran)}
