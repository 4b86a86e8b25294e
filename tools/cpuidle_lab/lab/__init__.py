# SPDX-License-Identifier: GPL-2.0
"""The lab: an unmodified Debian kernel in a virtual-time machine.

cache    where images are kept, and how they get there whole or not at all
archive  the cpio archives that the guest's root is made of
images   kernels, the guest's root, the modules as DKMS builds them
machine  QEMU, in virtual or in real time
monitor  QEMU's monitor
saved    machines that have booted, for runs in real time
workloads  the named programs
corpus   traces of real programs, each from a recipe
run      boots, runs a script in the guest, brings the results out
"""

from cpuidle_lab.lab.run import LabResult, LabRun, run_lab

__all__ = ["LabResult", "LabRun", "run_lab"]
