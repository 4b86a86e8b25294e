# SPDX-License-Identifier: GPL-2.0
"""The tables of the weighted TEO patch of 2020, and what its reviewers asked for.

replayed.py: is it better only because it is shallower, and how bad are stale weights. booted.py:
the tables and a completely idle system, in the lab. entry.py makes them an experiment.
"""
