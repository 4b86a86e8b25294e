# SPDX-License-Identifier: GPL-2.0
"""The promises of wteo, or of another governor of this project, part by part.

scope.py has the parts, their sizes and their order, streams.py the intervals that are played.
regret.py, front.py, learning.py, cost.py, robust.py, every_machine.py, kernel.py and ablation.py
measure one part each, mechanisms.py the worth of each step in NAME.steps.toml. page.py fills
page.md.
"""
