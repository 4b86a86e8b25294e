# SPDX-License-Identifier: GPL-2.0
"""Dumps of the kernel's counters of idle states: made on a machine, and compared with others."""
