# SPDX-License-Identifier: GPL-2.0
"""The hash of everything on which the results of a run in the lab depend."""

from dataclasses import fields
from pathlib import Path

from cpuidle_lab.base.cache import CACHE, digest
from cpuidle_lab.lab import built, emulator, images, machine, saved
from cpuidle_lab.lab import run as lab
from cpuidle_lab.lab.corpus import modules_hash, programs_hash

# The code of QEMU's options, of saved machines, and of the files that a guest gets.
_CODE = (machine, saved, lab)
# Attributes of LabRun that change no result, and mappings, whose items are hashed in order.
_LEFT_OUT = {"time_limit_s", "boots"}
_MAPPINGS = {"files", "changes"}


def can_be_known(kernel: str) -> bool:
    """Return whether key_of() makes nothing; where it would, no run has been made here.

    Args:
        kernel: of the run.
    """
    wanted = ("emulator-x86", "runtime", f"kernel-{kernel}")
    return all(any(CACHE.glob(f"{name}-*")) for name in wanted)


def machine_parts(kernel: str = lab.LabRun.kernel) -> list[str | bytes]:
    """Return the parts of every run: the kernel, our modules, QEMU and its options, what boots.

    Args:
        kernel: of the run.

    Raises:
        UserError: QEMU or the kernel is not there and cannot be made.
    """
    maker = built if kernel in built.FLAVOURS else images
    code = [Path(str(one.__file__)).read_bytes() for one in _CODE]
    parts = [maker.kernel(kernel).version, emulator.version(), modules_hash()]
    return [*parts, *code, lab.save_overlay().getvalue()]


def key_of(run: lab.LabRun) -> str:
    """Return a hash of all that the results of a run depend on.

    Raises:
        UserError: see machine_parts(), or the guest's programs cannot be made.
    """
    names = [one.name for one in fields(run) if one.name not in _LEFT_OUT | _MAPPINGS]
    values = [repr(getattr(run, name)) for name in names]
    changes = [text for change in sorted(run.changes.items()) for text in change]
    parts = [*machine_parts(run.kernel), programs_hash(dict(run.files))]
    return digest([*parts, *values, *changes])
