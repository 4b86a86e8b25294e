# SPDX-License-Identifier: GPL-2.0
"""Programs in BPF on the running machine: attaching, replacing, looking, letting go."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.bpf import build
from cpuidle_lab.host.machine import CURRENT_GOVERNOR, LAB, MODULE, Host

GOVERNOR = "bpf"
PIN = Path("/sys/fs/bpf/cpuidle_lab")
_STATUS = f"{MODULE}/parameters/bpf_status"
_TUNABLES = f"{MODULE}/parameters/bpf"
_SHADOW = f"{LAB}/shadow"
_POLL_S = 0.1
_BUSY = "Device or resource busy"
_DIED = "the loader was killed, so the program is detached"


def status(machine: Host) -> dict[str, str]:
    """Return what the module says of the program, by name.

    Raises:
        UserError: the module is not loaded, was built without programs, or may not be read.
    """
    tree = machine.tree
    if not tree.exists(MODULE):
        raise UserError("the module is not loaded: sudo modprobe cpuidle_lab")
    if not tree.exists(_STATUS):
        raise UserError(
            f"the module was built without programs in BPF: the kernel {machine.kernel()} does not "
            "let modules have them (it lacks __register_bpf_struct_ops or BTF)"
        )
    text = tree.read(_STATUS)
    if text is None:
        raise UserError(f"{_STATUS} cannot be read: run it with sudo")
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    found["pinned"] = "yes" if PIN.exists() else "no"
    return found


def check(machine: Host, use: bool = True) -> None:
    """Refuse a machine on which no program can be attached now.

    Args:
        machine: this one.
        use: the program is to decide; else it is to be a shadow.

    Raises:
        UserError: with the reason.
    """
    told = status(machine)
    state = told["state"]
    if state.startswith("unavailable"):
        raise UserError(f"no program can be attached: {state.partition(': ')[2]}")
    if machine.tree.read("/proc/sys/net/core/bpf_jit_enable") == "0":
        raise UserError("the kernel's BPF compiler is off: sudo sysctl net.core.bpf_jit_enable=1")
    if state != "empty":
        raise UserError(
            f"{told.get('name', 'a program')} is attached already: cpuidle-lab bpf stop, or end "
            "the command that runs it"
        )
    if os.geteuid() != 0:
        raise UserError("attaching a program takes CAP_BPF and CAP_PERFMON: run it with sudo")
    current = machine.tree.read(CURRENT_GOVERNOR) or ""
    if not use and not machine.tree.exists(f"{LAB}/{current}"):
        raise UserError(
            f"{current} decides now, and shadows decide beside a governor of this module alone: "
            f"echo teo_ng >{CURRENT_GOVERNOR}, or let the program decide with --use"
        )


def dump(machine: Host) -> str:
    """Return the state of the program that is attached, on each CPU, as C initialisers."""
    if "name" not in status(machine):
        raise UserError("no program is attached")
    done = subprocess.run([build.loader(), "dump"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"the state cannot be read: {_reason(done.stdout)}")
    return done.stdout


def set_tunable(machine: Host, text: str, folder: Path = build.OBJECTS) -> None:
    """Set a tunable of the program that is attached, or the governor's budget.

    Args:
        machine: this one.
        text: NAME=VALUE.
        folder: that the program's object is in.

    Raises:
        UserError: there is no such tunable, or the value is outside its range.
    """
    name, equal, value = text.partition("=")
    if not equal or not value.isdecimal():
        raise UserError(f"'{text}' is not NAME=VALUE with a number")
    if name == "budget":
        machine.tree.write(_TUNABLES, text)
        return
    told = status(machine)
    if "name" not in told:
        raise UserError("no program is attached")
    tunables = build.described(told["name"], told["hash"], folder)
    for number, each in enumerate(tunables):
        if each.name == name:
            if not each.min <= int(value) <= each.max:
                raise UserError(f"{name} must be {each.min} to {each.max}")
            machine.tree.write(_TUNABLES, f"t{number}={value}")
            return
    known = ", ".join(["budget", *(each.name for each in tunables)])
    raise UserError(f"{told['name']} has no tunable '{name}'; there are {known}")


def stop(machine: Host) -> None:
    """Let go of a program that was pinned, and take it out of the list of shadows.

    Raises:
        UserError: none is pinned.
    """
    if not PIN.exists():
        raise UserError(f"no program is pinned at {PIN}; one that is not ends with its command")
    PIN.unlink()
    _drop_shadow(machine)
    if machine.tree.read(CURRENT_GOVERNOR) == GOVERNOR:
        print(f"{GOVERNOR} is still the current governor, and decides as teo_ng")


def _reason(answer: str) -> str:
    last = answer.strip().splitlines()[-1:] or ["the loader died"]
    text = last[0].removeprefix("error ")
    if _BUSY in text:
        return "another program is attached already (EBUSY)"
    if "Operation not permitted" in text:
        return "the kernel does not permit it: it takes CAP_BPF and CAP_PERFMON"
    return text


class Loader:
    """The process that holds the link. Its end detaches the program."""

    def __init__(self, program: build.Program, pin: bool) -> None:
        """Attach a program.

        Raises:
            UserError: the kernel refuses it; the message has the verifier's last lines.
        """
        words = [str(build.loader()), "attach", str(program.path)]
        words += [str(PIN)] if pin else []
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.answer = self._answer("attached")

    def _answer(self, done: str) -> str:
        process = self._process
        assert process.stdout and process.stderr
        line = process.stdout.readline()
        if line.startswith("ok"):
            return line.strip()
        words = []
        os.set_blocking(process.stderr.fileno(), False)
        with contextlib.suppress(TypeError, BlockingIOError):
            words = process.stderr.read().strip().splitlines()
        raise UserError("\n".join([f"the program is not {done}: {_reason(line)}", *words]))

    def replace(self, program: build.Program) -> str:
        """Put another program in the place of the one that is attached, without a gap."""
        assert self._process.stdin
        try:
            self._process.stdin.write(f"replace {program.path}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise UserError(_DIED) from error
        return self._answer("replaced")

    def check(self) -> None:
        """Refuse to go on without the process.

        Raises:
            UserError: it has ended, and has detached the program by that.
        """
        if self._process.poll() is not None:
            raise UserError(_DIED)

    def wait(self) -> NoReturn:
        """Sleep until the process ends, which only an exception of a signal can precede.

        Raises:
            UserError: it has ended.
        """
        self._process.wait()
        raise UserError(_DIED)

    def close(self) -> None:
        """Detach, unless the program is pinned."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def _drop_shadow(machine: Host) -> None:
    names = (machine.tree.read(_SHADOW) or "none").split()
    if GOVERNOR in names:
        machine.tree.write(_SHADOW, " ".join(n for n in names if n != GOVERNOR) or "none")


@contextlib.contextmanager
def deciding(machine: Host, use: bool, keep: bool) -> Iterator[None]:
    """Let the governor bpf decide, or be a shadow; put back what was before.

    Args:
        machine: this one.
        use: as the current governor.
        keep: leave it so in the end.

    Raises:
        UserError: the kernel refuses; for a shadow a governor of the module must be current.
    """
    name = CURRENT_GOVERNOR if use else _SHADOW
    before = machine.tree.read(name)
    if before is None:
        raise UserError(f"{name} cannot be read (is debugfs mounted?)")
    wanted = GOVERNOR
    if not use:
        names = [each for each in before.split() if each not in ("none", GOVERNOR)]
        wanted = " ".join([*names, GOVERNOR])
    machine.tree.write(name, wanted)
    try:
        yield
    finally:
        if not keep:
            machine.tree.write(name, before)


def watch(
    sources: tuple[Path, ...],
    changed: Callable[[], tuple[Path, ...]],
    go_on: Callable[[], None],
) -> None:
    """Call a function whenever one of some files has changed; for ever.

    Args:
        sources: the files.
        changed: returns the files to watch from then on.
        go_on: called between two looks at the files; ends it by an exception.
    """

    def stamps() -> list[float]:
        return [path.stat().st_mtime if path.exists() else 0 for path in sources]

    seen = stamps()
    while True:
        time.sleep(_POLL_S)
        go_on()
        now = stamps()
        if now != seen:
            sources = changed()
            seen = stamps()
