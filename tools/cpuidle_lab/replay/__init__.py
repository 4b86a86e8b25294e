# SPDX-License-Identifier: GPL-2.0
"""Decisions that governors would have made: exact replay, counterfactuals, and the limits."""
