# SPDX-License-Identifier: GPL-2.0
"""Domains in recordings: their sleep, the CPUs that kept them awake, and governors' choices."""
