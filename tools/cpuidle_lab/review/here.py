# SPDX-License-Identifier: GPL-2.0
"""Both governors on this machine: as modules, in turns, with a program, as `ab` runs them."""

import sys
from collections.abc import Callable
from pathlib import Path

from cpuidle_lab.ab.estimates import figures
from cpuidle_lab.ab.record import Log, Session, load
from cpuidle_lab.ab.session import Plan, check, measure
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.host.loading import module
from cpuidle_lab.host.machine import Host
from cpuidle_lab.review import modules
from cpuidle_lab.review.booted import OF_MACHINE, SIZE, LabChange, turn_of

LOG = "here.jsonl"
_SETTLE_S = 1.0
# Figures of `ab` that are compared, by its keys.
_KEYS = dict(zip(("measured_j", "emulated_j", "wall_s"), OF_MACHINE, strict=True))


def _turns(
    governors: tuple[str, str], labels: tuple[str, str]
) -> tuple[tuple[str, str], list[Setting], list[str]]:
    """Return the names of both in the kernel, their tunables, and those that are built.

    Raises:
        UserError: no module has one of them, or one module cannot be both.
    """
    names: list[str] = []
    settings: list[Setting] = []
    built: list[str] = []
    for governor, label in zip(governors, labels, strict=True):
        turn, kernels = turn_of(governor, label)
        # There the gate lets its base decide.
        names.append(turn.tunables[-1].value)
        settings += turn.tunables[:-1]
        built += [kernels] if kernels else []
    before, after = names
    if before == after:
        raise UserError(f"{before}: on this machine a governor has one set of tunables")
    return (before, after), settings, built


def _plan(governors: tuple[str, ...], settings: list[Setting], command: str) -> Plan:
    return Plan(governors, SIZE.seeds, tuple(settings), 1, _SETTLE_S, None, ("sh", "-c", command),
                None, "lower")  # fmt: skip


def examine(governors: tuple[str, str], labels: tuple[str, str]) -> None:
    """Refuse what this machine cannot do, before anything is changed.

    Raises:
        UserError: no module has a governor, or the machine takes no module.
    """
    machine = Host()
    _turns(governors, labels)
    check(machine, _plan((), [], ""))
    if machine.lockdown() != "none":
        raise UserError(f"the kernel is locked down ({machine.lockdown()}): it takes no module "
                        "without a signature that it knows")  # fmt: skip
    modules.kernel_folder(machine)


def changes_of(session: Session, program: str) -> list[LabChange]:
    """Return the figures of a program that every run has.

    Args:
        session: the runs of two governors.
        program: what ran.
    """
    sides = [[runs[name] for runs in session.rounds] for name in session.governors]
    found = []
    for figure in figures(session):
        if figure.key in _KEYS:
            both = [tuple(figure.value(run) for run in side) for side in sides]
            if both[0] and None not in (*both[0], *both[1]):
                found.append(LabChange(program, _KEYS[figure.key], *both))  # type: ignore[arg-type]
    return found


def play(
    governors: tuple[str, str], labels: tuple[str, str], command: str, folder: Path,
    told: Callable[[str], None],
) -> list[LabChange]:  # fmt: skip
    """Run a command under both governors in turns; return what changes.

    Args:
        governors: before and after, as replay takes them.
        labels: of both.
        command: of the shell.
        folder: gets the runs, as a file that `ab --read` shows.
        told: shows progress.

    Raises:
        UserError: a governor has no module, or something failed; complete runs are in the file.
        InterruptedSession: a signal came; the machine is as before.
    """
    machine = Host()
    names, settings, built = _turns(governors, labels)
    log = Log(folder / LOG, force=True)
    with scratch() as place, module(machine, load=len(built) < len(names)):
        files = modules.build(sorted({*built}), modules.kernel_folder(machine), place)
        with modules.loaded(machine, files):
            measure(machine, _plan(names, settings, command), sys.argv, log, told)
    return changes_of(load(log.path), command)
