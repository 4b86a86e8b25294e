# SPDX-License-Identifier: GPL-2.0
"""Recordings: traces and text that are read, columns that are kept, streams that are made."""
