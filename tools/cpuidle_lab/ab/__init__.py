# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab ab`: governors in turns on one machine, and whether they differ."""
