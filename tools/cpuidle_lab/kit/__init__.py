# SPDX-License-Identifier: GPL-2.0
"""Archives in which volunteers send what their machine shows of idle governors."""
