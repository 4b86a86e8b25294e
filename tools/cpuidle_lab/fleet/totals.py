# SPDX-License-Identifier: GPL-2.0
"""The parts of a fleet, added up by machine, service and governor.

Energies and counts are integers, so sums do not depend on the order in which parts are read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cpuidle_lab.fleet.inputs import Item, local, machine_of
from cpuidle_lab.fleet.task import PART, Done, kept_name
from cpuidle_lab.replay.recorded import RECORDED

# Columns that tell the rows of the sums apart.
KEYS = ("kind", "service", "machine")
_SUMS = ("span_ns", "intervals", "decisions", "above", "below", "cost_pj", "oracle_pj",
         "far_cost_pj", "far_oracle_pj")  # fmt: skip
# Files that are read at once.
_FILES = 2000


@dataclass(frozen=True)
class Fleet:
    """Sums of the recordings that count, and what became of the others.

    Attributes:
        machines: a row for each of KEYS and governor, in their order: sums, `weight`, `derived`.
        latencies: rows of KEYS, governor, latency_ns, wakeups.
        recordings: a row for each recording that counts and governor, for the search of harm.
        governors: labels, in the order of the command line; `recorded` first where all have it.
        failed: by name of the recording, why it does not count.
        counted: number of recordings that count.
        notes: what a reader must know.
    """

    machines: pl.DataFrame
    latencies: pl.DataFrame
    recordings: pl.DataFrame
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
    return item.url if local(item.url) else str(folder / kept_name(one.content))


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


def _batches(paths: list[Path], columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield columns of parts; a bounded number of files is open and in memory at a time."""
    yield pl.DataFrame(schema={name: PART[name] for name in columns})
    for start in range(0, len(paths), _FILES):
        scan = pl.scan_parquet(paths[start : start + _FILES], schema=PART, glob=False)
        yield scan.select(columns).collect()


def add_up(items: Sequence[Item], done: Mapping[str, Done], folder: Path) -> Fleet:
    """Return the sums of a fleet.

    A recording counts if each governor has a regret on it, so that all are judged by the same.

    Args:
        items: the recordings.
        done: what their tasks came to, by name.
        folder: of the results.
    """
    failed: dict[str, str] = {}
    kept = _twins(items, done, failed)
    labels = list(dict.fromkeys(label for item in kept for label in done[item.name].parts))
    asked = [label for label in labels if label != RECORDED]
    # A label of the command line, since governors with the same key share a part.
    names = {
        (done[item.name].content, label): path
        for item in kept
        for label, path in done[item.name].parts.items()
    }
    table = _table(kept, done, folder)
    head = [name for name in PART if name not in ("latency_ns", "wakeups", "governor")]
    sums, mixes = [], []
    for label in labels:
        paths = [folder / path for (_, mine), path in names.items() if mine == label]
        sums.append(pl.concat(_batches(paths, head)).with_columns(governor=pl.lit(label)))
        mixes.append((label, paths))
    rows = (
        pl.concat(sums) if sums else pl.DataFrame(schema={n: PART[n] for n in [*head, "governor"]})
    )
    rows = rows.join(table, on="content", how="left")
    wrong = rows.filter((pl.col("withheld") != "") & pl.col("governor").is_in(asked))
    for name, why in (
        wrong.sort("name", "governor")
        .unique("name", keep="first")
        .select("name", pl.format("{}: {}", "governor", "withheld"))
        .iter_rows()
    ):
        failed[name] = why
    rows = rows.filter(~pl.col("name").is_in(list(failed)))
    good = rows.filter(pl.col("withheld") == "")
    counted = rows["name"].n_unique()
    notes = []
    governors = asked
    if RECORDED in labels and counted:
        if good.filter(pl.col("governor") == RECORDED).height == counted:
            governors = [RECORDED, *asked]
        else:
            notes.append("not all recordings tell what their own governor came to, so `recorded` "
                         "is left out")  # fmt: skip
    rows = good.filter(pl.col("governor").is_in(governors)).with_columns(
        kind=pl.when(pl.col("own_kind") != "").then("own_kind").otherwise("kind")
    )
    machines = (
        rows.group_by(*KEYS, "governor")
        .agg(
            *(pl.col(name).sum() for name in _SUMS),
            pl.col("weight").max(), pl.col("derived").any(), pl.len().alias("recordings"),
        )
        .sort(*KEYS, "governor")
    )  # fmt: skip
    keys = rows.select("content", *KEYS).unique("content")
    latencies = [_latencies(paths, keys, label) for label, paths in mixes if label in governors]
    found = pl.concat(latencies) if latencies else pl.DataFrame()
    return Fleet(machines, found, rows, governors, dict(sorted(failed.items())), counted, notes)


def _latencies(paths: list[Path], keys: pl.DataFrame, label: str) -> pl.DataFrame:
    """Return the wake-ups of machines by latency; rows of recordings are in memory in batches."""
    by = [*KEYS, "latency_ns"]
    pieces = [
        parts.join(keys, on="content")
        .explode("latency_ns", "wakeups")
        .drop_nulls("latency_ns")
        .group_by(by)
        .agg(pl.col("wakeups").sum())
        for parts in _batches(paths, ["content", "latency_ns", "wakeups"])
    ]
    found = pl.concat(pieces).group_by(by).agg(pl.col("wakeups").sum())
    return found.with_columns(governor=pl.lit(label)).sort(by)
