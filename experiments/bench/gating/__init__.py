# SPDX-License-Identifier: GPL-2.0
"""What latency hints are worth: the gate beside menu and performance mode; see docs/bench.md.

guest runs the lab, wakes and energy read what the guest left, judgement judges it and gate_text
shows it.
"""
