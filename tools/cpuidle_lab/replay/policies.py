# SPDX-License-Identifier: GPL-2.0
"""The policies that decided in a recording, by the numbers and configurations of its events."""

import re
from collections.abc import Mapping

import numpy as np
import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns import TRACE, Recording
from cpuidle_lab.replay.engine import Array

GATE = "gate"
# Programs in BPF decide for it; the configuration names "bpf:NAME@HASH".
BPF = "bpf"
_PROGRAM = re.compile(r"bpf:(\w+)")
# Stands for a kernel governor under the gate: its recorded answer, then the gate's clamp.
BASE = "base"

# Tables of a trace whose formats name the governors and the reasons.
_NAMING = ("period", "decision", "shadow", "config")


def _name(recording: Recording, column: str, number: int) -> str:
    named = (recording.symbols.get((table, column), {}).get(number) for table in _NAMING)
    return next(filter(None, named), f"{column} {number}")


def governor_name(recording: Recording, number: int) -> str:
    """Return the name of a governor, by its number in the trace."""
    return _name(recording, "governor", number)


def reason_name(recording: Recording, number: int) -> str:
    """Return the name of a reason, by its number in the trace."""
    return _name(recording, "reason", number)


def is_program(base: str) -> bool:
    """Return whether a configuration's base is a program in BPF, or teo_ng in place of one."""
    return _PROGRAM.match(base) is not None


def policy_of(name: str, base: str) -> str:
    """Return the policy that decides, by a configuration's governor and base.

    A program in BPF stands for the policy whose name it has: the same sources made both.
    """
    program = _PROGRAM.match(base)
    if program:
        return program[1]
    return base if name == GATE else name


class Policies:
    """The policies of a CPU, by the number of the governor; under the gate by its base."""

    def __init__(self, plain: Mapping[int, str], since: Array, bases: list[str]):
        self._plain = plain
        self._since = since
        self._bases = bases

    def of(self, chunk: Mapping[str, Array]) -> Array:
        """Return the name of the policy of each decision; "?" is unknown, BASE the kernel's."""
        numbers = chunk["governor"]
        names = np.array([self._plain.get(n, "?") for n in range(256)], dtype=object)[numbers]
        led = np.isin(names, (GATE, BPF))
        if led.any():
            at = np.searchsorted(self._since, chunk["seq"], side="right") - 1
            based = np.array([*self._bases, "?"], dtype=object)[at]
            names = np.where(led, based, names)
        return names


def policies_of(recording: Recording, cpu: int) -> Policies:
    """Return the policies of a CPU's decisions."""
    config = recording.table("config").filter(pl.col("cpu") == cpu).sort("seq")
    plain = {n: governor_name(recording, n) for n in range(256)}
    own = {name for name in plain.values() if not name.startswith("governor ")}
    bases = [
        name if name in own or is_program(base) else BASE
        for base in config["base"].to_list()
        for name in [policy_of(GATE, base)]
    ]
    return Policies(plain, config["seq"].to_numpy(), bases)


def recorded_policies(recording: Recording) -> list[str]:
    """Return the policies whose decisions a recording holds, and BASE under the gate."""
    must_be_trace(recording)
    found: dict[str, None] = {}
    for cpu in recording.cpus:
        whose = policies_of(recording, cpu)
        for chunk in recording.periods(cpu, ["seq", "governor"]):
            found |= dict.fromkeys(sorted(set(whose.of(chunk))))
    return [name for name in found if name != "?"]


def recorded_shadows(recording: Recording) -> list[str]:
    """Return the governors that decided as shadows in a recording, without programs in BPF.

    The events of a shadow do not say which program it was.
    """
    numbers = sorted(recording.table("shadow")["governor"].unique().to_list())
    names = [governor_name(recording, n) for n in numbers]
    return [name for name in names if name != BPF]


def must_be_trace(recording: Recording) -> None:
    """Refuse a recording without decisions of policies.

    Raises:
        UserError: it is no trace of the module.
    """
    if recording.kind != TRACE:
        raise UserError(
            f"{recording.path}: holds no decisions of the project's governors to be made again; "
            "record cpuidle_lab events"
        )
