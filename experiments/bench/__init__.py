# SPDX-License-Identifier: GPL-2.0
"""What latency hints are worth and cost: see docs/bench.md.

gating/ compares the gate with menu in the lab; gate.py measures what it adds to a decision.
"""
