# SPDX-License-Identifier: GPL-2.0
"""Gain and cost of latency hints.

guest.py runs programs in the lab, wakes.py reads what the guest left, judgement.py judges it.
decisions.py counts what the gate adds to a decision, switches.py what hints add to a switch.
"""
