# SPDX-License-Identifier: GPL-2.0
"""Searches the tunables of a governor: pieces, space, search, and what comes out of it."""
