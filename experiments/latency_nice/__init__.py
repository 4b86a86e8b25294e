# SPDX-License-Identifier: GPL-2.0
"""Placement of tasks by their latency hints, by small schedulers of sched_ext."""
