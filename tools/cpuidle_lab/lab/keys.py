# SPDX-License-Identifier: GPL-2.0
"""What the results of a run in the lab depend on, as one hash."""

from pathlib import Path

from cpuidle_lab.lab import built, emulator, images, machine, saved
from cpuidle_lab.lab import run as lab
from cpuidle_lab.lab.cache import CACHE, digest
from cpuidle_lab.lab.corpus import modules_hash, programs_hash

# What decides how a run goes: QEMU's options, the machine that it goes on from, what it is given.
_CODE = (machine, saved, lab)
# Of LabRun: all but what says how long and how often it is tried, and what is hashed by itself.
_FIELDS = (
    "script", "kernel", "cpus", "seed", "with_modules", "memory_mib", "real_time", "options",
    "turn_us", "packages", "threads",
)  # fmt: skip


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
    fields = [repr(getattr(run, name)) for name in _FIELDS]
    changes = [text for change in sorted(run.changes.items()) for text in change]
    parts = [*machine_parts(run.kernel), programs_hash(dict(run.files))]
    return digest([*parts, *fields, *changes])
