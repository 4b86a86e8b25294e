# SPDX-License-Identifier: GPL-2.0
"""What judged measurements have in common: tables, verdicts on promises, sections, plots, pages."""
