# SPDX-License-Identifier: GPL-2.0
"""Governors as programs in BPF: building them, loading them, looking at them."""
