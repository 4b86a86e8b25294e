# SPDX-License-Identifier: GPL-2.0
"""State tables: where they come from, how they are written, what their idle states cost."""
