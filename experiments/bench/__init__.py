# SPDX-License-Identifier: GPL-2.0
"""What governors and tools cost, beside mainline's, and where ours lose: see docs/bench.md.

Each part gives a dictionary for bench.json; terminal shows them, losses picks what is worse than
mainline's.
"""
