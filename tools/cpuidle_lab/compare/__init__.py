# SPDX-License-Identifier: GPL-2.0
"""Compares governors over recordings by replay: one table, one HTML file."""
