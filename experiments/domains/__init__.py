# SPDX-License-Identifier: GPL-2.0
"""The room that a governor which knows its neighbours would have."""
