# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment cyclic`: what is read of a guest, and of boots that are missing."""

from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.view.terminal import meter
from experiments.cyclic import entry
from experiments.experiment import NOT_BOOTED, Request
from experiments.memo import Memo

# As stress-ng writes it.
SAID = """\
stress-ng: info:  [7] cyclic:   50.00%:       2300 ns
stress-ng: info:  [7] cyclic:   99.00%:       7200 ns
stress-ng: info:  [7] cyclic: latency distribution (100 ns intervals):
stress-ng: info:  [7] cyclic: latency (ns) frequency
stress-ng: info:  [7] cyclic:         2200         12
stress-ng: info:  [7] cyclic:         7100          3
"""


def cells(seed: int, p99_us: float) -> dict[str, Any]:
    """Return what a boot brings back."""
    cell = {"buckets": [(2200, 100)], "p50_us": 2.3, "p99_us": p99_us, "power_mw": 900.0,
            "cyclictest_us": [1.0, 2.0, 3.0]}  # fmt: skip
    names = [entry._name(name, one, seed) for name in entry.GOVERNORS for one in entry.PERIODS_US]
    return dict.fromkeys(names, cell)


def test_percentiles_and_buckets_are_read() -> None:
    assert entry.percentiles(SAID) == {50.0: 2300, 99.0: 7200}
    assert entry.distribution(SAID) == {2200: 12, 7100: 3}
    assert entry.distribution("no such line\n1 2\n") == {}
    with pytest.raises(UserError, match="no percentiles"):
        entry.percentiles("stress-ng: info:  [7] cyclic:   50.00%:       2300 ns")


def test_seeds_that_are_known_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = [None, cells(2, 7.0), None, cells(4, 9.0)]
    monkeypatch.setattr(entry, "boots", lambda *_: told)
    with Memo(tmp_path / "memo.db") as memo:
        rows = entry.EXPERIMENT.measure(Request(seeds=4), memo, meter).rows
        assert [row.ours for row in rows] == [[7.0, 9.0]] * len(rows)
        told = [None]
        assert [row.note for row in entry.EXPERIMENT.measure(Request(), memo, meter).rows] == [
            NOT_BOOTED
        ]
