# SPDX-License-Identifier: GPL-2.0
"""The figures of a recording: metrics, the rules that they keep, and where there is none."""
