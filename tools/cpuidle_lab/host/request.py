# SPDX-License-Identifier: GPL-2.0
"""A latency request for all CPUs while a session lasts.

The kernel ends a request when its file is closed, so it ends with the process, too, by whatever
signal. The workload does not inherit the file.
"""

import contextlib
import os
import struct
from collections.abc import Iterator

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.marks import POLLING
from cpuidle_lab.host.sysfs import why

FILE = "/dev/cpu_dma_latency"


def quick_us(machine: Host) -> int | None:
    """Return the request that leaves each CPU its shallowest state beside polling.

    Returns:
        The exit latency of that state, us; None: no CPU has such a state.
    """
    shallowest = (
        next((one for one in states if not (one.name in POLLING or one.disabled)), None)
        for states in machine.idle_states()
    )
    return max((one.exit_latency_us for one in shallowest if one), default=None)


@contextlib.contextmanager
def held(machine: Host, limit_us: int | None) -> Iterator[None]:
    """Hold a request.

    Args:
        machine: whose CPUs it limits.
        limit_us: greatest exit latency allowed; None: no request.

    Raises:
        UserError: the kernel takes none.
    """
    if limit_us is None:
        yield
        return
    try:
        descriptor = os.open(machine.tree.path(FILE), os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(
            f"{FILE} takes no latency request: {why(error)}; --request none records without one"
        ) from error
    try:
        os.write(descriptor, struct.pack("=i", limit_us))
        yield
    finally:
        os.close(descriptor)
