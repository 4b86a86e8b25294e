# SPDX-License-Identifier: GPL-2.0
"""The lines that a recorder writes into a trace of an unmodified kernel.

`cpuidle-lab capture --stock` writes into the trace the idle states, the tick, the latency request
and the kernel:

    stock machine cpus=0-3 tick_ns=4000000 latency_req_us=-1 disabled=0x0 states=POLL:0:0:0,C1:2:2:0
    stock kernel=6.12.107 governor=menu way=probes

At its end it writes the lines once more, as "stock end ..." in place of "stock machine ...".

A small reader of another format adds the line "stock unused=EVENT,EVENT".

A state is NAME:EXIT_LATENCY_US:TARGET_RESIDENCY_US:POWER_MW; one of the names in POLLING spins. The
lines "phase governor=NAME workload=NAME" tell later governors.
"""

import re

# Begins the lines.
MARK = "stock "
MACHINE = f"{MARK}machine "
END = f"{MARK}end "
PHASE = "phase governor="

# Stands for an event of the kernel: a latency request changes.
REQUEST = f"{MARK}request"

# The marks that tell of a recording, and how many of them are believed.
OWN_LINES = f"^(?:{MARK}|{PHASE})"
LINES_MAX = 1 << 16

# Names of the states in which a CPU spins, as the kernel's drivers have them.
POLLING = ("POLL", "snooze")

# No latency request, as PM QoS has it.
NO_REQUEST = -1

# Ways in which the events of a recording tell the figures of a governor.
PROBES, EVENTS, INTERRUPTS, CPU_IDLE = "probes", "events", "interrupts", "cpu_idle"


def plain(name: str) -> str:
    """Return a state's name as a word that ends no field."""
    return re.sub(r"[^\w.+-]", "_", name)[:15] or "state"
