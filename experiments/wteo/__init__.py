# SPDX-License-Identifier: GPL-2.0
"""Does a governor hold what it promises? The evidence, target by target.

plan.py says what is measured, how large and in which order; streams.py holds what is played,
memo.py what was measured before. regret.py, front.py, learning.py, cost.py, robust.py, kernel.py
and ablation.py measure one part each, mechanisms.py what each step in NAME.steps.toml is worth;
tables.py, plots.py and page.py show the figures.
"""
