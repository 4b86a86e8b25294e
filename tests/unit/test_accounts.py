# SPDX-License-Identifier: GPL-2.0
"""The proof of accounts: idle periods as the machine has them, and the cost of its account."""

from pathlib import Path

import polars as pl

from cpuidle_lab.figures.frames import DECISIONS, IDLE, Frames
from tests.proofs.accounts import costs
from tests.proofs.accounts.run import slept

TRACE = """\
# tracer: function_graph
 0)   0.300 us    |  emul_domains_wake [cpuidle_emul]();
 0)   1.100 us    |  emul_switch [cpuidle_emul]();
 0)   0.500 us    |  emul_switch [cpuidle_emul]();
 0)   0.300 us    |  emul_domains_wake [cpuidle_emul]();
 0) + 10.004 us   |  emul_switch [cpuidle_emul]();
 ------------------------------------------
 0)   0.600 us    |  emul_switch [cpuidle_emul]();
 0)   0.301 us    |  emul_domains_wake [cpuidle_emul]();
 0)   0.100 us    |  emul_switch [cpuidle_emul]();
 0)   0.100 us    |  emul_switch [cpuidle_emul]();
"""


# The trace may begin within a period; switches without a wake-up are those of a poll.
def test_the_calls_of_an_idle_period_belong_together() -> None:
    assert list(costs.periods(TRACE)) == [(500, 300, 10_004), (600, 301, 100)]
    assert list(costs.periods("")) == []


def test_the_table_has_a_column_for_each_number_of_cpus() -> None:
    found = [
        costs.Cost("a package", setting, cpus, 10 * cpus + k)
        for cpus in (16, 4)
        for k, setting in enumerate(costs.SETTINGS)
    ]
    head, line, *rows = costs.rows(found)
    assert (head, line) == ("| domains | setting | 4 CPUs | 16 CPUs |", "| --- | --- | --: | --: |")
    assert rows == ["| a package | all others asleep | 40 | 160 |",
                    "| a package | CPU 1 busy | 41 | 161 |"]  # fmt: skip


def test_each_account_is_tried_in_each_setting() -> None:
    lines = costs.script().splitlines()
    tried = [line for line in lines if line.startswith("measure ")]
    assert len(tried) == len(set(tried)) == len(costs.DOMAINS) * len(costs.SETTINGS)
    assert lines.count("leave") == len(costs.DOMAINS)


# A period that the kernel did not measure stays as its events tell.
def test_an_idle_period_is_as_long_as_the_kernel_measured_it() -> None:
    idle = pl.DataFrame(
        {"cpu": [0, 0, 1], "start_ns": [100, 500, 100], "end_ns": [400, 900, 400],
         "index": [1, 1, 1], "state": ["C1"] * 3, "seq": [1, 2, None]}, schema=IDLE,
    )  # fmt: skip
    decisions = pl.DataFrame(
        {"cpu": [0, 0], "seq": [1, 2], "residency_ns": [250, 0]},
        schema={name: DECISIONS[name] for name in ("cpu", "seq", "residency_ns")},
    )
    none = pl.DataFrame()
    found = slept(Frames(Path("x"), "", decisions, none, idle, none))
    assert found["start_ns"].to_list() == [150, 500, 100]
    assert found.columns == idle.columns


# Where the clock counts another CPU's instructions, no period may be without them.
def test_the_typical_time_is_that_of_the_cpu_alone() -> None:
    calls = (907, 840, 907)
    shared = [tuple(ns + 1000 * (k == late) for k, ns in enumerate(calls)) for late in range(3)] * 9
    assert costs.typical(shared, is_shared=True) == 2654
    assert costs.typical(shared, is_shared=False) == 3654


# A rarer path of the kernel is five instructions shorter; a scattered call has no frequent time.
def test_a_rare_time_of_a_call_is_not_its_typical_one() -> None:
    assert costs.alone([902] + [907] * 5 + [6214] * 6) == 907
    assert costs.alone([*range(2000, 2018), 907, 907]) == 907
