# SPDX-License-Identifier: GPL-2.0
"""How results are shown: in the terminal, and as one HTML page with charts."""
