# SPDX-License-Identifier: GPL-2.0
"""The idle states of the running machine as the lines that a recording carries (stock.py).

Needs nothing but Python itself, like all that records.
"""

import re
import struct
from collections.abc import Iterator

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.machine import Host

_CPUS = "/sys/devices/system/cpu"
_STATES_MAX = 10
DEFAULT_HZ = 250

# PM QoS has no request with this value, us; -1 is none in a line.
NO_DMA_LATENCY_US = 2_000_000_000
_NO_REQUEST = -1
_POWER_MAX_MW = 1_000_000


def plain(name: str) -> str:
    """Return a state's name as a word that ends no field."""
    return re.sub(r"[^\w.+-]", "_", name)[:15] or "state"


def lines(host: Host, hz: int = DEFAULT_HZ) -> list[str]:
    """Return one line for each run of CPUs with the same idle states.

    Args:
        host: the machine.
        hz: rate of the tick where no file tells it.

    Raises:
        UserError: no CPU has idle states.
    """
    found: list[tuple[int, int, str]] = []
    for cpu, text in _tables(host, hz):
        if found and found[-1][1] == cpu - 1 and found[-1][2] == text:
            found[-1] = found[-1][0], cpu, text
        else:
            found.append((cpu, cpu, text))
    if not found:
        raise UserError("this machine shows no idle states (no cpuidle driver)")
    return [f"stock machine cpus={first}-{last} {text}" for first, last, text in found]


def ticks_per_second(host: Host) -> int | None:
    """Return the rate of the running kernel's scheduler tick; None: no file tells it."""
    hz = (host.kernel_config(host.kernel()) or {}).get("CONFIG_HZ", "")
    return int(hz) if hz.isdecimal() and int(hz) else None


def assumption(host: Host, hz: int = DEFAULT_HZ) -> str:
    """Return one sentence where the rate of the tick is assumed, else ""."""
    if ticks_per_second(host):
        return ""
    return f"the kernel's HZ is not known: {hz} is assumed"


def _tables(host: Host, hz: int) -> Iterator[tuple[int, str]]:
    tick_ns = 1_000_000_000 // (ticks_per_second(host) or hz)
    general_us = _dma_latency_us(host)
    numbers = (name[3:] for name in host.tree.names(_CPUS) if name[:3] == "cpu")
    for cpu in sorted(int(number) for number in numbers if number.isdecimal()):
        states, disabled = _states(host, f"{_CPUS}/cpu{cpu}/cpuidle")
        if not states:
            continue
        own = host.tree.read(f"{_CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us") or ""
        own_us = 0 if own == "n/a" else _number(own) or _NO_REQUEST
        requests = [us for us in (own_us, general_us) if us != _NO_REQUEST]
        yield (
            cpu,
            (
                f"tick_ns={tick_ns} latency_req_us={min(requests, default=_NO_REQUEST)} "
                f"disabled={disabled:#x} states={','.join(states)}"
            ),
        )


def _states(host: Host, folder: str) -> tuple[list[str], int]:
    states, disabled = [], 0
    for k in range(_STATES_MAX):
        name = host.tree.read(f"{folder}/state{k}/name")
        if name is None:
            break
        for key in ("latency", "residency"):
            text = host.tree.read(f"{folder}/state{k}/{key}")
            if text and not re.fullmatch(r"[0-9]{1,20}", text):
                raise UserError(f"{folder}/state{k}/{key}: '{text[:20]}' is no time of idle states")
        latency, residency, power, off = (
            _number(host.tree.read(f"{folder}/state{k}/{key}"))
            for key in ("latency", "residency", "power", "disable")
        )
        told = power if power <= _POWER_MAX_MW else 0
        states.append(f"{plain(name)}:{latency}:{residency}:{told}")
        disabled |= bool(off) << k
    return states, disabled


def _dma_latency_us(host: Host) -> int:
    """Return the latency request for all CPUs."""
    data = host.tree.read_bytes("/dev/cpu_dma_latency") or b""
    value = struct.unpack("=i", data)[0] if len(data) == 4 else NO_DMA_LATENCY_US
    return value if 0 <= value < NO_DMA_LATENCY_US else _NO_REQUEST


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
