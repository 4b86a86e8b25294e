# SPDX-License-Identifier: GPL-2.0
"""What the reviewers of the weighted TEO patch of 2020 asked for.

replayed.py: is it better only because it is shallower, and how bad are stale weights. entry.py
makes it an experiment. The tables themselves need the lab and are not measured yet.
"""
