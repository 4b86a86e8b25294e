# SPDX-License-Identifier: GPL-2.0
"""Predictions of replay beside what the kernel then did.

parts    the phases of a recording, each a recording of its own
own      replay of a phase, from a recorded state or afresh
loop     whether a workload answers its governor
trust    how far predictions on a recording can be trusted
pairs    predictions and facts, for each two governors under one workload
targets  how good they must be, and whether they are
plan     recordings that have every workload under every governor, made in the lab
results  table, plot and files
misses   the intervals that make an error
moved    how far the intervals of two recordings differ
"""
