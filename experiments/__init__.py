# SPDX-License-Identifier: GPL-2.0
"""Measurements that show whether the project's own promises hold; no part of what is installed.

They stand on the tools (cpuidle_lab) and share its ways to play, judge and draw: evidence/ has the
tables, verdicts and plots. The commands are there where `cpuidle-lab` runs from the tree.
"""
