# SPDX-License-Identifier: GPL-2.0
"""Questions of the reviewers of the weighted TEO patch of 2020.

replayed.py: is it better only because it is shallower, and how bad are stale weights. programs.py:
the thread's programs and its idle system, in the lab. entry.py makes both an experiment.
"""
