# SPDX-License-Identifier: GPL-2.0
"""What governors would have done: exact replay, counterfactuals, and the limits."""
