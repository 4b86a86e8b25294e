# SPDX-License-Identifier: GPL-2.0
"""Regressions and claims of the mailing lists, each a YAML file, replayed under several kernels.

schema.py reads the file, cpuidle_lab.replay.law makes its intervals, case.py plays them, bisect.py
finds the kernel at which a figure changes. docs/experiments/README.md says how to add one.
"""
