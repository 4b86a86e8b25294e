# SPDX-License-Identifier: GPL-2.0
"""The version, as the file VERSION has it; a test compares them."""

__version__ = "0.1.0"
