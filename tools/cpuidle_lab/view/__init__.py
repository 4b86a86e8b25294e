# SPDX-License-Identifier: GPL-2.0
"""Views of results: in the terminal, and as one HTML page with charts."""
