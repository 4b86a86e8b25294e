# SPDX-License-Identifier: GPL-2.0
"""Clones: the workload of a recording, rebuilt as tasks that run, wake each other, and sleep."""
