# SPDX-License-Identifier: GPL-2.0
"""Specs as cases of experiments/cases, which `experiment FILE` plays."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from cpuidle_lab.review.stream import Spec, phases_text, table_text

# In the first line, so that a review replaces only its own.
HEAD = "# SPDX-License-Identifier: GPL-2.0 (written by cpuidle-lab review)\n"


class _Dumper(yaml.SafeDumper):
    """Writes lists and mappings of leaves on one line."""


def _number(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _number(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_number(one) for one in value]
    return value


# Kinds of figures of a case: the one that shows what a search looked for stands in front.
_KINDS = ("regret", "power", "latency", "ticks")
_SHOWN = {"power": "power", "exit latency": "latency", "ticks": "ticks"}


def case(spec: Spec, title: str, why: str, governors: Sequence[str], objective: str = "") -> str:
    """Return a case as YAML.

    Args:
        spec: table, conditions and intervals.
        title: of the case.
        why: what it shows.
        governors: as `experiment` takes them.
        objective: of the search, as of hunt.OBJECTIVES; "": none.
    """
    stream = {"phases": [{"busy_us": 20, **phase} for phase in spec["phases"]]}
    stream |= {key: spec[key] for key in ("repeat", "skip", "tick_stopped") if key in spec}
    request = {"latency_req_us": spec["latency_req_us"]} if "latency_req_us" in spec else {}
    shown = _SHOWN.get(objective, _KINDS[0])
    told: dict[str, Any] = {
        "title": title,
        "claim": "None: no report of it is known.",
        "source": "cpuidle-lab review",
        "question": why,
        "tick_hz": spec["tick_hz"],
        "machine": spec["states"],
        **({"disabled": spec["disabled"]} if spec.get("disabled") else {}),
        "streams": {"found": stream},
        "figure": {"kind": shown},
        "also": [{"kind": kind} for kind in _KINDS if kind != shown],
        "cells": [{"governor": name, **request} for name in governors],
        "meaning": f"{table_text(spec)}: {phases_text(spec)}",
    }
    dumped = yaml.dump(_number(told), Dumper=_Dumper, sort_keys=False, width=96,
                       default_flow_style=None)  # fmt: skip
    return HEAD + dumped
