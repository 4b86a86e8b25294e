# SPDX-License-Identifier: GPL-2.0
"""The running machine: sysfs, probes and counters, and what commands change there for a while."""
