# SPDX-License-Identifier: GPL-2.0
"""The report: tables in the terminal, one HTML file, JSON and CSV."""
