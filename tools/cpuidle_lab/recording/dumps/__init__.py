# SPDX-License-Identifier: GPL-2.0
"""Dumps: the kernel's counters of idle states at some moments, in all forms that are published.

`model` has what all forms tell, `own` is the project's form, and the others are those of grep, head
and tail, of cpupower, of turbostat, and of bare values: docs/dumps.md. `reading` tells them apart.
Writing needs nothing but Python itself, as all that records.
"""
