# SPDX-License-Identifier: GPL-2.0
"""Common parts of judged measurements: tables, verdicts on promises, sections, plots, pages."""
