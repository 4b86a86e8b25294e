# SPDX-License-Identifier: GPL-2.0
"""A request and an answer between two CPUs, rebuilt from its recording."""
