# SPDX-License-Identifier: GPL-2.0
"""Tools around the cpuidle_lab kernel module: lab, capture, report."""

__version__ = "0.1.0"
