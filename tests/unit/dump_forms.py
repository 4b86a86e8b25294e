# SPDX-License-Identifier: GPL-2.0
"""Counters of machines that are invented, in the forms that reporters send."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cpuidle_lab.recording.dumps import own
from cpuidle_lab.recording.dumps.model import Cpu, Moment, State

SYSFS = "/sys/devices/system/cpu"

Files = dict[str, str]
# The states of each CPU.
Machine = dict[int, list[Files]]

SERVER = (("POLL", 0, 0), ("C1", 2, 2), ("C1E", 10, 20), ("C6", 133, 600))
LITTLE = (("WFI", 1, 1), ("off-l", 349, 6710))
BIG = (("WFI", 1, 1), ("off-b", 147, 2580))

# Attributes that not every kernel has.
OPTIONAL = ("misses", "default_status", "rejected", "s2idle")


def state(name: str, exit_us: int, target_us: int, entries: int,
          lacks: Iterable[str] = (), **more: object) -> Files:  # fmt: skip
    """Return the files of a state that was entered so often."""
    files = {
        "above": str(entries // 5),
        "below": str(entries // 10),
        "default_status": "enabled",
        "desc": f"MWAIT {exit_us:#x}",
        "disable": "0",
        "latency": str(exit_us),
        "name": name,
        "power": "0",
        "rejected": "0",
        "residency": str(target_us),
        "time": str(entries * (target_us + 7)),
        "usage": str(entries),
    }
    if target_us > 2:
        files |= {"s2idle/time": "0", "s2idle/usage": "0"}
    for lack in lacks:
        gone = {"misses": ("above", "below"), "s2idle": ("s2idle/time", "s2idle/usage")}
        for key in gone.get(lack, (lack,)):
            files.pop(key, None)
    return files | {key: str(value) for key, value in more.items()}


def machine(turn: int, cpus: Iterable[int] = range(4), lacks: Iterable[str] = (),
            tables: Sequence[Sequence[tuple[str, int, int]]] = (SERVER,)) -> Machine:  # fmt: skip
    """Return a machine whose counters grow with each turn, and not with the CPU."""
    return {
        cpu: [
            state(*each, 1000 * turn * (cpu * 5 % 7 + 3) + 100 * k + 10 * cpu, lacks)
            for k, each in enumerate(tables[cpu % len(tables)])
        ]
        for cpu in cpus
    }


def lines(files: Machine) -> list[tuple[str, str]]:
    """Return path and text of each file, in the order of a shell's pattern."""
    return [
        (f"{SYSFS}/cpu{cpu}/cpuidle/state{k}/{key}", each[key])
        for cpu in sorted(files, key=str)
        for k, each in enumerate(files[cpu])
        for key in sorted(each)
    ]


def grep(files: Machine) -> str:
    """Return what grep -r . prints."""
    return "".join(f"{path}:{text}\n" for path, text in lines(files))


def grep_numbered(files: Machine) -> str:
    """Return what grep -rn . prints."""
    return "".join(f"{path}:1:{text}\n" for path, text in lines(files))


def below_cpus(files: Machine) -> str:
    """Return what grep -r . cpu*/cpuidle prints in the folder of CPUs."""
    return grep(files).replace(f"{SYSFS}/", "")


def tail(files: Machine) -> str:
    """Return what tail -n +1 prints."""
    return "\n".join(f"==> {path} <==\n{text}\n" for path, text in lines(files))


def echo(files: Machine) -> str:
    """Return what a loop of echo and cat prints."""
    return "".join(f"{path}\n{text}\n" for path, text in lines(files))


def bare(files: Machine) -> str:
    """Return what cat prints."""
    return "".join(f"{text}\n" for _, text in lines(files))


def moment(files: Machine, facts: Files | None = None, label: str = "") -> Moment:
    """Return a moment."""
    cpus = tuple(Cpu(cpu, tuple(map(State, files[cpu]))) for cpu in sorted(files))
    return Moment(cpus, facts or {}, label)


def dumped(files: Machine) -> str:
    """Return the text of cpuidle-lab dump."""
    return own.text_of([moment(files)])


def cpupower(files: Machine, with_targets: bool = True) -> str:
    """Return what cpupower -c all idle-info prints."""
    text = "CPUidle driver: intel_idle\nCPUidle governor: menu\n"
    for cpu, states in files.items():
        text += f"analyzing CPU {cpu}:\n\nNumber of idle states: {len(states)}\n"
        text += f"Available idle states: {' '.join(each['name'] for each in states)}\n"
        for each in states:
            text += f"{each['name']}:\nFlags/Description: {each['desc']}\n"
            text += f"Latency: {each['latency']}\n"
            text += f"Residency: {each['residency']}\n" * with_targets
            text += f"Usage: {each['usage']}\nDuration: {each['time']}\n"
        text += "\n"
    return text


NAMED = {"grep": grep, "grep -n": grep_numbered, "below": below_cpus, "tail": tail, "echo": echo,
         "dump": dumped}  # fmt: skip
FORMS = {**NAMED, "bare": bare}


def write(folder: Path, name: str, text: str | bytes) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
