# SPDX-License-Identifier: GPL-2.0
"""The parts of a fleet, added up by machine, service and governor, in batches.

Energies and counts are integers, so sums do not depend on the order in which parts are read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cpuidle_lab.fleet.inputs import Item, local, machine_of
from cpuidle_lab.fleet.task import PART, Done, kept_name
from cpuidle_lab.replay.recorded import RECORDED

# Columns that tell the rows of the sums apart.
KEYS = ("kind", "service", "machine")
_SUMS = ("span_ns", "intervals", "decisions", "above", "below", "cost_pj", "oracle_pj",
         "far_cost_pj", "far_oracle_pj", "deep_ns", "together_ns")  # fmt: skip
# Recordings whose parts are in memory at once.
_TOGETHER = 500


@dataclass(frozen=True)
class Fleet:
    """Sums of the recordings that count, and what became of the others.

    Attributes:
        machines: a row for each of KEYS and governor, in their order: sums, `weight`, `derived`.
        latencies: rows of KEYS, governor, latency_ns, wakeups.
        worst: by KEYS and governor, `name` and `shown` of the recording that takes most more
            energy than with the base.
        governors: labels, in the order of the command line; `recorded` first where all have it.
        failed: by name of the recording, why it does not count.
        counted: number of recordings that count.
        notes: what a reader must know.
    """

    machines: pl.DataFrame
    latencies: pl.DataFrame
    worst: pl.DataFrame
    governors: list[str]
    failed: dict[str, str]
    counted: int
    notes: list[str]


def _twins(items: Sequence[Item], done: Mapping[str, Done], failed: dict[str, str]) -> list[Item]:
    """Return the items with a part, each content once; tell of the others."""
    first: dict[str, str] = {}
    kept = []
    for item in items:
        one = done[item.name]
        if one.sentence:
            failed[item.name] = one.sentence
        elif one.content in first:
            failed[item.name] = f"has the contents of {first[one.content]}, which counts once"
        else:
            first[one.content] = item.name
            kept.append(item)
    return kept


def _shown(item: Item, one: Done, folder: Path) -> str:
    """Return the place of a recording for `compare`: of one elsewhere, its intervals."""
    if item.scrubbed:
        return item.name
    return item.url if local(item.url) else str(folder / kept_name(one.content, scrub=False))


def _table(items: Sequence[Item], done: Mapping[str, Done], folder: Path) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "content": [done[item.name].content for item in items],
            "name": [item.name for item in items],
            "shown": [_shown(item, done[item.name], folder) for item in items],
            "machine": [machine_of(item) for item in items],
            "own_kind": [item.kind for item in items],
            "service": [item.service for item in items],
            "weight": [item.weight for item in items],
        },
        schema={"content": pl.String, "name": pl.String, "shown": pl.String, "machine": pl.String,
                "own_kind": pl.String, "service": pl.String, "weight": pl.Float64},
    )  # fmt: skip


def _parts(items: Sequence[Item], done: Mapping[str, Done], folder: Path) -> pl.DataFrame:
    """Return the parts of some recordings, with their metadata and what the base took."""
    paths: dict[str, list[Path]] = {}
    for item in items:
        for label, path in done[item.name].parts.items():
            paths.setdefault(label, []).append(folder / path)
    # A label of the command line, since governors with the same key share a part.
    rows = [
        pl.scan_parquet(found, schema=PART, glob=False).with_columns(governor=pl.lit(label))
        for label, found in paths.items()
    ]
    table = _table(items, done, folder)
    return pl.concat(pl.collect_all(rows)).join(table, on="content", how="left")


def _good(rows: pl.DataFrame, failed: dict[str, str]) -> pl.DataFrame:
    """Return the rows that count: each governor has a regret there; tell of the others."""
    wrong = rows.filter((pl.col("withheld") != "") & (pl.col("governor") != RECORDED))
    found = dict(
        wrong.sort("name", "governor")
        .unique("name", keep="first")
        .select("name", pl.format("{}: {}", "governor", "withheld"))
        .iter_rows()
    )
    failed.update(found)
    own = pl.when(pl.col("own_kind") != "").then("own_kind").otherwise("kind")
    return rows.filter(
        (pl.col("withheld") == "") & ~pl.col("name").is_in(list(found))
    ).with_columns(kind=own)


class _Sums:
    """Sums over batches of recordings: memory grows with machines, not with recordings."""

    def __init__(self) -> None:
        self.machines: pl.DataFrame | None = None
        self.latencies: pl.DataFrame | None = None
        self.worst: pl.DataFrame | None = None

    def add(self, good: pl.DataFrame, base: str) -> None:
        """Add the rows of a batch."""
        by = [*KEYS, "governor"]
        heads = good.with_columns(recordings=pl.lit(1, pl.UInt32))
        mixes = good.select(*by, "latency_ns", "wakeups").explode("latency_ns", "wakeups")
        bases = good.filter(pl.col("governor") == base).select("name", base_pj="cost_pj")
        more = good.join(bases, on="name").with_columns(more=pl.col("cost_pj") - pl.col("base_pj"))
        self.machines = _joined(
            self.machines,
            heads,
            by,
            *(pl.col(name).sum() for name in (*_SUMS, "recordings")),
            pl.col("weight").max(),
            pl.col("derived").any(),
        )
        self.latencies = _joined(
            self.latencies,
            mixes.drop_nulls("latency_ns"),
            [*by, "latency_ns"],
            pl.col("wakeups").sum(),
        )
        self.worst = _joined(
            self.worst,
            more.sort("more", "name"),
            by,
            pl.col("name", "shown", "more").sort_by("more", "name").last(),
        )


def _joined(
    old: pl.DataFrame | None, new: pl.DataFrame, by: Sequence[str], *sums: pl.Expr
) -> pl.DataFrame:
    """Return sums over earlier ones and new rows, in the order of `by`."""
    found = new.group_by(by).agg(*sums)
    if old is not None:
        found = pl.concat([old, found.select(old.columns)]).group_by(by).agg(*sums)
    return found.sort(by)


def add_up(items: Sequence[Item], done: Mapping[str, Done], folder: Path, base: str) -> Fleet:
    """Return the sums of a fleet.

    A recording counts if each governor has a regret on it, so that all are judged by the same.

    Args:
        items: the recordings.
        done: what their tasks came to, by name.
        folder: of the results.
        base: governor that the others are compared with.
    """
    failed: dict[str, str] = {}
    kept = _twins(items, done, failed)
    labels = list(dict.fromkeys(label for item in kept for label in done[item.name].parts))
    sums, counted, told = _Sums(), 0, 0
    for start in range(0, len(kept), _TOGETHER):
        good = _good(_parts(kept[start : start + _TOGETHER], done, folder), failed)
        counted += good["name"].n_unique()
        told += good.filter(pl.col("governor") == RECORDED).height
        sums.add(good, base)
    governors = [label for label in labels if label != RECORDED]
    notes = []
    if RECORDED in labels and counted:
        if told == counted:
            governors = [RECORDED, *governors]
        else:
            notes.append("not all recordings tell what their own governor came to, so `recorded` "
                         "is left out")  # fmt: skip
    machines, latencies, worst = (
        pl.DataFrame() if frame is None else frame.filter(pl.col("governor").is_in(governors))
        for frame in (sums.machines, sums.latencies, sums.worst)
    )
    return Fleet(
        machines, latencies, worst, governors, dict(sorted(failed.items())), counted, notes
    )
