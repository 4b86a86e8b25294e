# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment cyclic`: latencies of clock_nanosleep at 1 ms, 100 us and 10 us.

stress-ng's cyclic stressor and cyclictest sleep with real-time priority and without timer slack.
One boot has all governors and periods, and a round for each seed.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.lab import LabResult, LabRun
from cpuidle_lab.recording import state_tables
from cpuidle_lab.recording.laws import US
from experiments import energy
from experiments.boots import NOT_BOOTED, boots, limit_s, sources
from experiments.energy import account, power_mw
from experiments.experiment import ORIGINAL, QUICK, Findings, Request, Row
from experiments.here import Load
from experiments.memo import Memo

# Nearest to the post's i7-3770 among the tables that the emulator has.
TABLE = "skl"
HZ = 250

# Code that plans the boots and reads their results.
CODE = [Path(__file__), Path(energy.__file__)]

GOVERNORS = ("menu", "ladder", "menu_ng", "teo_ng", "wteo")
PERIODS_US = (1000, 100, 10)

# Sleeps for each period, by scale.
SLEEPS: Mapping[str, Mapping[int, int]] = {
    QUICK: {1000: 150, 100: 500, 10: 1000},
    ORIGINAL: {1000: 60_000, 100: 600_000, 10: 6_000_000},
}
USUALLY = {1000: 400, 100: 2000, 10: 5000}

# Of stress-ng's histogram, as in the post.
BUCKET_NS = 100

_HEAD = """\
. /lab/functions
load cpuidle_emul machine={table}
load cpuidle_lab
account=/sys/kernel/debug/cpuidle_emul/energy
# one NAME COMMAND...: the output, and the energy account before and after.
one() {{
	name=$1
	shift
	cat $account >"/results/$name.before"
	"$@" >"/results/$name.out" 2>&1 || fail "$name failed: $(tail -n 1 "/results/$name.out")"
	cat $account >"/results/$name.after"
}}
"""
_STRESS = (
    "stress-ng --cyclic 1 --cyclic-dist {bucket} --cyclic-policy rr "
    "--cyclic-method clock_ns --cyclic-sleep {sleep_ns} --cyclic-ops {count} --timer-slack 0 "
    "--verbose --timeout {limit}"
)
_CYCLICTEST = (
    "cyclictest --default-system --priority 80 --quiet --nsecs --threads 1 "
    "--interval {period} --loops {count}"
)


def _commands(period: int, count: int) -> tuple[str, str]:
    """Return the commands for a period in us: of stress-ng and of cyclictest."""
    limit = max(5, 4 * count * period // 1_000_000)
    stress = _STRESS.format(bucket=BUCKET_NS, sleep_ns=period * US, count=count, limit=limit)
    return stress, _CYCLICTEST.format(period=period, count=count)


def _loads(period: int, count: int) -> tuple[Load, Load]:
    """Return the programs for this machine."""
    stress, cyclictest = (tuple(words.split()) for words in _commands(period, count))
    return (
        Load(f"stress-{period}", f"stress-ng, {period} us: p99", stress,
                  r"99\.00%:\s*(\d+) ns", "us", 1 / US),
        Load(f"cyclictest-{period}", f"cyclictest, {period} us: maximum", cyclictest,
                  r"Max:\s*(\d+)", "us", 1 / US),
    )  # fmt: skip


def _name(governor: str, period: int, seed: int) -> str:
    return f"{governor}-{period}-{seed}"


def script(counts: Mapping[int, int], seed: int) -> str:
    """Return what the guest runs: all governors and periods, in an order that the seed rotates."""
    lines = [_HEAD.format(table=TABLE)]
    for place in range(len(GOVERNORS)):
        governor = GOVERNORS[(place + seed) % len(GOVERNORS)]
        for period in PERIODS_US:
            name = _name(governor, period, seed)
            stress, cyclictest = _commands(period, counts[period])
            lines += [
                f"afresh {governor}",
                # Each round meets the tick at another point.
                f"usleep {seed * 7919 % 4000 + 1000}",
                f"one {name}.stress {stress}",
                f"afresh {governor}",
                f"one {name}.cyclictest {cyclictest}",
            ]
    return "\n".join(lines)


_PERCENTILE = re.compile(r"([\d.]+)%:\s*(\d+) ns")
_BIN = re.compile(r"(\d+)\s+(\d+)\s*$")
_CYCLIC = re.compile(r"Min:\s*(\d+).*Avg:\s*(\d+) Max:\s*(\d+)")


def distribution(text: str) -> dict[int, int]:
    """Return stress-ng's histogram: numbers of sleeps by the latency at which a bucket begins, ns.

    It ends at 250 buckets: longer latencies are in the percentiles alone.
    """
    head = text.find("latency distribution")
    found: dict[int, int] = {}
    for line in text[head:].splitlines()[1:] if head >= 0 else []:
        match = _BIN.search(line)
        if match and "stress-ng" in line:
            found[int(match[1])] = int(match[2])
    return found


def percentiles(text: str) -> dict[float, int]:
    """Return stress-ng's percentiles of the latency, ns.

    Raises:
        UserError: the output has none.
    """
    found = {float(percent): int(ns) for percent, ns in _PERCENTILE.findall(text)}
    if not {50.0, 99.0} <= found.keys():
        raise UserError("stress-ng's output has no percentiles of the latency")
    return found


def _cell(folder: Path, name: str) -> dict[str, Any]:
    def read(suffix: str) -> str:
        return (folder / f"{name}.{suffix}").read_text(errors="replace")

    told = percentiles(read("stress.out"))
    cyclic = _CYCLIC.search(read("cyclictest.out"))
    if not cyclic:
        raise UserError(f"{name}: cyclictest's output has no latencies")
    slots = account(read("stress.before"), read("stress.after"))
    return {
        "buckets": sorted(distribution(read("stress.out")).items()),
        "p50_us": told[50.0] / US,
        "p99_us": told[99.0] / US,
        "power_mw": power_mw(slots, state_tables.find(TABLE, HZ)),
        "cyclictest_us": [int(value) / US for value in cyclic.groups()],
    }


def _read(result: LabResult) -> dict[str, Any]:
    names = (path.name.removesuffix(".stress.out") for path in result.files.glob("*.stress.out"))
    return {name: _cell(result.files, name) for name in sorted(names)}


def _overlaid(period: int, sleeps: int, seed: int, found: Mapping[str, Any]) -> Plot:
    lines = []
    for governor in GOVERNORS:
        buckets = dict(found[_name(governor, period, seed)]["buckets"])
        points = [
            (start / US + 0.05, 100 * n / sleeps) for start, n in sorted(buckets.items()) if n
        ]
        lines.append(Line(governor, points))
    return Plot(
        f"cyclic-{period}us", f"clock_nanosleep of {period} us", "latency, us (buckets of 100 ns)",
        "sleeps, %", lines, log_x=True,
    )  # fmt: skip


def _in_range(found: Mapping[str, Any], period: int, seed: int) -> float:
    """Return how many sleeps of a run the histograms hold, the median of the governors."""
    runs = [found[_name(governor, period, seed)]["buckets"] for governor in GOVERNORS]
    return float(median(sum(count for _, count in buckets) for buckets in runs))


def _seeds(found: Mapping[str, Any], governor: str, period: int, seeds: Sequence[int]) -> list[Any]:
    return [found[_name(governor, period, seed)] for seed in seeds]


def _table(found: Mapping[str, Any], seeds: Sequence[int]) -> Table:
    rows: list[list[Cell]] = []
    for period in PERIODS_US:
        for governor in GOVERNORS:
            cells = _seeds(found, governor, period, seeds)
            rows.append(
                [
                    f"{period} us",
                    governor,
                    median(one["p50_us"] for one in cells),
                    median(one["p99_us"] for one in cells),
                    *(median(one["cyclictest_us"][n] for one in cells) for n in range(3)),
                    median(one["power_mw"] for one in cells),
                ]
            )
    heads = ("sleep", "governor", "stress-ng p50, us", "p99, us", "cyclictest min, us", "mean, us",
             "max, us", "power, mW")  # fmt: skip
    return Table("Latencies and modelled power, medians of the seeds", heads, rows, 1)


def _rows(found: Mapping[str, Any], seeds: Sequence[int]) -> list[Row]:
    return [
        Row(
            f"{governor}, {period} us: p99",
            ours=[one["p99_us"] for one in _seeds(found, governor, period, seeds)],
            unit="us",
        )
        for period in PERIODS_US
        for governor in GOVERNORS
    ]


class Cyclic:
    """The post's distributions, under idle governors in place of cpufreq's."""

    name = "cyclic"
    title = "Wake-ups of clock_nanosleep"
    claim = (
        "The frequency governor decides the latency of wake-ups at 1 ms, 100 us and 10 us; "
        "performance mode has the best distribution and takes a little more power."
    )
    source = (
        '"Comparing Latencies and Power consumption with various CPU schedulers", Colin Ian King, '
        "July 2018; an i7-3770"
    )
    question = (
        "The post varies the frequency governor and names idle states as the other cause. What do "
        "idle governors make of the same measurement, the frequency being fixed?"
    )
    in_lab = True
    governors = GOVERNORS

    def programs_here(self, scale: str) -> list[Load]:
        """Return the programs for this machine."""
        return [one for period, count in SLEEPS.get(scale, USUALLY).items()
                for one in _loads(period, count)]  # fmt: skip

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: the guest has the programs."""
        return []

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Boot once for each seed."""
        counts = SLEEPS.get(request.scale, USUALLY)
        limit = limit_s(request.scale, 1800)
        runs = [
            LabRun(script(counts, seed), seed=seed, real_time=False, time_limit_s=limit)
            for seed in range(1, request.seeds + 1)
        ]
        told = boots(runs, _read, CODE, request, memo, meter, "Sleeping in the lab")
        found = {name: cell for cells in told for name, cell in (cells or {}).items()}
        result = Findings(same=_SAME, differs=_DIFFERS, meaning=_MEANING)
        result.sources = sources(CODE)
        seeds = [seed for seed, cells in enumerate(told, 1) if cells]
        if not seeds:
            result.rows.append(Row(self.title, note=NOT_BOOTED))
            return result
        result.rows = _rows(found, seeds)
        section = Section("cyclic", self.title, tables=[_table(found, seeds)])
        section.plots += [
            _overlaid(period, counts[period], seeds[0], found)
            for period in PERIODS_US
            if _in_range(found, period, seeds[0]) > counts[period] / 2
        ]
        result.sections.append(section)
        return result


_SAME = "The program, its options and the buckets of 100 ns are the post's."
_DIFFERS = """\
The lab has no frequencies, so the post's axis, the frequency governor, is left to `--here` on a
real machine. The post's figures are pictures only. A nanosecond is an instruction; power is
modelled; the state table is Skylake's. There are fewer sleeps than in the post's 60 s. Power is of
the whole run, of which the start of the program is the most; so it says little of the sleeps.
stress-ng's histogram has 250 buckets, so it ends at 25 us: there is no picture of 1 ms, and ladder
is beyond that of 100 us."""
_MEANING = """\
At 1 ms each governor takes a deep state, and a sleep is late by its exit latency: 0.2 ms with menu
and TEO, 0.09 ms with wteo, 0.9 ms with ladder. From 100 us down all but ladder keep to shallow
states. For less at 1 ms, set a latency request or a hint: menu and TEO are alike."""

EXPERIMENT = Cyclic()
