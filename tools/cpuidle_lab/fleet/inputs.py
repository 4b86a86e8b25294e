# SPDX-License-Identifier: GPL-2.0
"""The recordings that a command line names, and the table of their machines."""

import posixpath
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import fsspec
import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns.layout import META

# The columns of a table of machines, beside `recording`.
METADATA = ("machine", "kind", "kernel", "service", "weight", "table", "domains")

_LISTS = (".csv", ".parquet", ".txt")

_T = TypeVar("_T")


@dataclass(frozen=True)
class Item:
    """A recording of a fleet.

    Attributes:
        name: short name, different for each.
        url: path or URL.
        machine: that it was made on; "" where nothing tells: it is one of its own.
        kind: of machine; "" where nothing tells: its idle states are the kind.
        kernel: release; "" where nothing tells: that of the recording.
        service: that the machine ran, "" if unknown.
        weight: number of machines that the machine stands for.
        table: idle states, as of --machine, of a recording that does not tell them.
        domains: of the machine, as of --domains; "" leaves them out.
        scrubbed: name and machine are numbers, and nothing that is written may tell more.
    """

    name: str
    url: str
    machine: str = ""
    kind: str = ""
    kernel: str = ""
    service: str = ""
    weight: float = 1.0
    table: str = ""
    domains: str = ""
    scrubbed: bool = False


def patiently(work: Callable[[], _T], patience_s: float, what: str) -> _T:
    """Return the result of work on files elsewhere.

    Raises:
        TimeoutError: it took too long.
        OSError: and others that the file system of fsspec raises.
    """
    found, failed = list[_T](), list[BaseException]()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(patience_s)
    if thread.is_alive():
        raise TimeoutError(f"{what} took longer than {patience_s:g} s")
    if failed:
        raise failed[0]
    return found[0]


def _frame(url: str) -> pl.DataFrame:
    """Return a table: a file, or a dataset of Parquet, whose folders name values of columns."""
    files, path = fsspec.url_to_fs(url)
    if not files.isdir(path):
        with files.open(path, "rb") as stream:
            is_parquet = url.endswith(".parquet")
            return (
                pl.read_parquet(stream) if is_parquet else pl.read_csv(stream, infer_schema=False)
            )
    frames = []
    for name in sorted(one for one in files.find(path) if one.endswith(".parquet")):
        words = posixpath.relpath(name, path).split("/")[:-1]
        with files.open(name, "rb") as stream:
            frame = pl.read_parquet(stream)
        values = dict(word.split("=", 1) for word in words if "=" in word)
        frames.append(frame.with_columns(**{key: pl.lit(value) for key, value in values.items()}))
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _read_table(url: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV or Parquet table with a column `recording`.

    Raises:
        UserError: it cannot be read, or lacks the column.
    """
    try:
        frame = _frame(url)
    except OSError as error:
        if error.strerror:
            raise UserError(f"{url}: cannot be read: {error.strerror}") from None
        raise UserError(f"{url}: is no table: {str(error).splitlines()[0]}") from None
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{url}: is no table: {str(error).splitlines()[0]}") from None
    if "recording" not in frame.columns:
        has = ", ".join(frame.columns) or "no columns"
        raise UserError(f"{url}: has no column 'recording'; it has {has}")
    if unknown := sorted({*frame.columns} - {"recording", *METADATA}):
        raise UserError(f"{url}: unknown column '{unknown[0]}'; known are {', '.join(METADATA)}")
    rows = frame.to_dicts()
    return [{key: value for key, value in row.items() if value not in (None, "")} for row in rows]


def _told(url: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a row as Item has it.

    Raises:
        UserError: its weight is no positive number.
    """
    found: dict[str, Any] = {key: str(row[key]) for key in METADATA if key in row}
    if "weight" in found:
        try:
            found["weight"] = float(found["weight"])
        except ValueError:
            found["weight"] = 0.0
        if not 0 < found["weight"] < float("inf"):
            raise UserError(f"{url}: the weight '{row['weight']}' of {row['recording']} is no "
                            "positive number")  # fmt: skip
    return found


def _joined(base: str, name: str) -> str:
    """Return the place that a list names: relative to the list, or by itself."""
    if "://" in name or name.startswith("/"):
        return name
    return posixpath.join(posixpath.dirname(base), name)


def _of_list(url: str) -> Iterator[Item]:
    if url.endswith(".txt"):
        with fsspec.open(url, "rt") as stream:
            rows: list[dict[str, Any]] = [
                {"recording": line.strip()} for line in stream if line.strip()[:1] not in ("", "#")
            ]
    else:
        rows = _read_table(url)
    for row in rows:
        if "recording" not in row:
            raise UserError(f"{url}: a row names no recording")
        name = str(row["recording"])
        yield Item(name, _joined(url, name), **_told(url, row))


def _of_folder(files: Any, root: str) -> list[tuple[str, str]]:
    """Return name and path of each recording below a folder; hidden ones are none."""
    every = sorted(files.find(root))
    directories = {posixpath.dirname(path) for path in every if posixpath.basename(path) == META}
    traces = [path for path in every if path.endswith(".dat")]
    found = [
        (name, path)
        for path in (*traces, *directories)
        if not (name := posixpath.relpath(path, root)).startswith(".")
        and not any(folder in directories for folder in _above(path, root))
    ]
    return sorted(found)


def _above(path: str, root: str) -> Iterator[str]:
    """Yield the folders between a path and the root."""
    while len(path := posixpath.dirname(path)) > len(root.rstrip("/")):
        yield path


def _of_source(source: str) -> Iterator[Item]:
    """Yield the recordings that one word of the command line names."""
    try:
        files, path = fsspec.url_to_fs(source)
        is_folder = files.isdir(path)
        if not files.exists(path):
            raise UserError(f"{source}: cannot be read: No such file or directory")
        place = source.rstrip("/")
        if place.endswith(_LISTS) and not files.exists(posixpath.join(path, META)):
            yield from _of_list(place)
        elif not is_folder or files.exists(posixpath.join(path, META)):
            yield Item(posixpath.basename(path.rstrip("/")), source)
        else:
            for name, place in _of_folder(files, path):
                yield Item(name, files.unstrip_protocol(place) if "://" in source else place)
    except (ImportError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{source}: cannot be listed: {reason}") from error


def _listed(source: str) -> list[Item]:
    return list(_of_source(source))


def find(
    sources: Sequence[str], metadata: str | None, patience_s: float = 600
) -> tuple[list[Item], list[str]]:
    """Return the recordings that a command line names, by name, and what a reader must know.

    Args:
        sources: folders, lists, recordings; paths or URLs.
        metadata: a table of machines: CSV or Parquet with a column `recording`.
        patience_s: time after which listing a source is given up.

    Raises:
        UserError: a source cannot be listed, or names no recording.
    """
    by_url: dict[str, Item] = {}
    for source in sources:
        try:
            found = patiently(partial(_listed, source), patience_s, "listing it")
        except TimeoutError as error:
            raise UserError(f"{source}: {error}") from error
        for item in found:
            by_url.setdefault(item.url, item)
    if not by_url:
        raise UserError(f"{', '.join(sources)}: no recording (*.dat, or directory with {META})")
    items = list(by_url.values())
    if len({item.name for item in items}) < len(items):
        items = [replace(item, name=item.url) for item in items]
    notes: list[str] = []
    if metadata:
        items, notes = _with_metadata(items, metadata)
    return sorted(items, key=lambda item: item.name), notes


def _with_metadata(items: list[Item], metadata: str) -> tuple[list[Item], list[str]]:
    rows = {str(row.get("recording")): _told(metadata, row) for row in _read_table(metadata)}
    found, used = [], set()
    for item in items:
        key = next((key for key in (item.name, item.url) if key in rows), None)
        found.append(replace(item, **rows[key]) if key else item)
        used.add(key)
    notes = []
    if unused := sorted({*rows} - used):
        notes.append(f"{len(unused)} rows of {metadata} name no recording, first {unused[0]}")
    if bare := len(items) - len([key for key in used if key]):
        notes.append(f"{bare} recordings have no row in {metadata}")
    return found, notes


def scrubbed(items: Sequence[Item]) -> list[Item]:
    """Return items with numbers for names of recordings and machines, in the same order."""
    named = sorted({item.machine for item in items} - {""})
    machines = {name: f"m{n:06}" for n, name in enumerate(named, 1)}
    return [
        replace(item, name=f"r{n:06}", machine=machines.get(item.machine, ""),
                scrubbed=True)
        for n, item in enumerate(items, 1)
    ]  # fmt: skip


def unnamed(sentence: str, item: Item) -> str:
    """Return a sentence about a recording without its place."""
    path = local(item.url)
    for place in (item.url, *([str(path)] if path else [])):
        sentence = sentence.replace(place, item.name)
    return sentence


def names_table(items: Sequence[Item], found: Sequence[Item]) -> str:
    """Return, as CSV, which recordings and machines stand behind numbers."""
    rows = [
        {"name": new.name, "recording": old.url, "machine": new.machine, "called": old.machine}
        for old, new in zip(items, found, strict=True)
    ]
    return pl.DataFrame(rows).write_csv()


def machine_of(item: Item) -> str:
    """Return the machine of a recording; itself where nothing tells."""
    return item.machine or item.name


def local(url: str) -> Path | None:
    """Return the path of a recording on this machine's disk; None of one elsewhere."""
    files, path = fsspec.url_to_fs(url)
    protocol = files.protocol if isinstance(files.protocol, str) else files.protocol[0]
    return Path(path) if protocol in ("file", "local") else None
