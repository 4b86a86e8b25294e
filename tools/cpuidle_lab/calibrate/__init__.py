# SPDX-License-Identifier: GPL-2.0
"""Measures the idle states of the running machine; docs/calibrate.md."""
