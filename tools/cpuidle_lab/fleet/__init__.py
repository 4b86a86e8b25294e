# SPDX-License-Identifier: GPL-2.0
"""Governors on the recordings of many machines.

inputs   the recordings that a command line names, and the table of their machines
task     one recording: read, reduced to intervals, replayed; a part for each governor
cluster  tasks on the processes of dask, which may die
totals   the parts, added up by machine
answers  regrets with their intervals, harm, heavy tails, a roll-out
fleet_text, fleet_page   the answers in the terminal, and as a page
"""
