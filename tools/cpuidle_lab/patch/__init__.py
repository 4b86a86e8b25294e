# SPDX-License-Identifier: GPL-2.0
"""A governor of the project as a series of patches for the kernel."""
