# SPDX-License-Identifier: GPL-2.0
"""Verdicts of `review` on changes whose effect is known by now."""
