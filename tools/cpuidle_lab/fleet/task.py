# SPDX-License-Identifier: GPL-2.0
"""One recording of a fleet: read, reduced to intervals, replayed; a part for each governor.

    OUT/intervals/RECORDING-READER/     a trace or a fetched recording as a Parquet directory
    OUT/results/RE/RECORDING-GOVERNOR.parquet    one row: a part
    OUT/index/PLACE                     the digest of the recording that lies in a place

RECORDING, READER and GOVERNOR are digests: of the contents and the idle states given; of the
sources that read; of governor, tunables and the sources that replay. So a part depends on nothing
that its name does not tell, and is never written anew with other contents.
"""

import hashlib
import io
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import polars as pl

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import SCRATCH, scratch
from cpuidle_lab.compare import model
from cpuidle_lab.compare.model import Result
from cpuidle_lab.compare.sources import Source, open_source
from cpuidle_lab.domains import replayed
from cpuidle_lab.figures import invariants, withheld
from cpuidle_lab.figures.group import FEW_INTERVALS
from cpuidle_lab.fleet import inputs
from cpuidle_lab.recording import columns, domain_trees, state_tables
from cpuidle_lab.recording.columns import Recording, names
from cpuidle_lab.recording.native import native_reader
from cpuidle_lab.recording.trace import context_with
from cpuidle_lab.replay.candidates import Candidate, candidate
from cpuidle_lab.replay.recorded import RECORDED
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import CpuTable, StateTable

# The folders whose sources a part depends on; those of governors are in the library's name.
_READS = ("base", "states", "recording")
_REPLAYS = (*_READS, "replay", "figures", "compare", "domains", "fleet")
_CHUNK = 1 << 20

PART: dict[str, Any] = {
    "content": pl.String, "governor": pl.String, "kernel": pl.String, "kind": pl.String,
    "derived": pl.Boolean, "withheld": pl.String, "span_ns": pl.Int64, "intervals": pl.Int64,
    "decisions": pl.Int64, "above": pl.Int64, "below": pl.Int64, "cost_pj": pl.Int64,
    "oracle_pj": pl.Int64, "far_cost_pj": pl.Int64, "far_oracle_pj": pl.Int64,
    "deep_ns": pl.Int64, "together_ns": pl.Int64,
    "latency_ns": pl.List(pl.Int64), "wakeups": pl.List(pl.Int64),
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """Orders of a task.

    Attributes:
        url: path or URL of the recording.
        table: idle states given for it, "" if none.
        folder: of the results; all workers see it.
        governors: labels, as of --governors.
        patience_s: time after which fetching is given up.
        domains: of the machine, as of --domains; "" leaves them out.
        scrub: keep no names of tasks and workloads.
    """

    url: str
    table: str
    folder: str
    governors: tuple[str, ...]
    patience_s: float
    domains: str = ""
    scrub: bool = False


@dataclass
class Done:
    """Answer of a task.

    Attributes:
        content: digest of the recording, "" if it was not read.
        parts: paths of the parts below the folder of results, by governor.
        sentence: why there are no parts, "" if there are.
        fresh: replays that were not there yet.
        intervals: that these replayed.
        cpu_s: CPU time of the task, without that of the engine's own thread.
    """

    content: str = ""
    parts: dict[str, str] = field(default_factory=dict)
    sentence: str = ""
    fresh: int = 0
    intervals: int = 0
    cpu_s: float = 0.0


def _digest(words: Sequence[str | bytes]) -> str:
    total = hashlib.sha256()
    for word in words:
        data = word.encode(errors="surrogateescape") if isinstance(word, str) else word
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:32]


@cache
def _sources(*folders: str) -> str:
    """Return a digest of the Python sources in some folders of the package."""
    package = TOP / "tools" / "cpuidle_lab"
    paths = [path for name in folders for path in sorted((package / name).rglob("*.py"))]
    return _digest([word for path in paths for word in (path.name, path.read_bytes())])


@cache
def _reader() -> str:
    """Return a digest of the sources that read."""
    return _digest([_sources(*_READS), native_reader().parent.name])[:12]


def governor_key(label: str) -> str:
    """Return a digest of a governor, its tunables, and the sources that replay it."""
    words = [_sources(*_REPLAYS), label if label == RECORDED else ""]
    if label != RECORDED:
        found = candidate(label)
        library = Path(found.governor.library._name).parent.name
        values = found.governor.values(dict(found.settings))
        words += [library, found.governor.name, repr(values)]
    return _digest(words)[:16]


def kept_name(content: str, scrub: bool) -> str:
    """Return the path of a recording's intervals below the folder of results."""
    return f"intervals/{content}-{_reader()}{'-scrubbed' if scrub else ''}"


@cache
def _tree(domains: str) -> str:
    """Return a short digest of a tree of domains, "" if none is given."""
    return f"-{_digest([repr(domain_trees.read(domains))])[:8]}" if domains else ""


def part_name(content: str, label: str, domains: str = "") -> str:
    """Return the path of a part below the folder of results."""
    return f"results/{content[:2]}/{content}-{governor_key(label)}{_tree(domains)}.parquet"


def put(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all; another process may write the same meanwhile.

    Raises:
        OSError: there is no room.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=SCRATCH, dir=path.parent)
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(data)
        Path(name).replace(path)
    except OSError as error:  # that of a write names no file
        Path(name).unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def _content(path: Path, table: str) -> str:
    """Return the digest of a recording: its files, and the idle states that are given."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    given = Path(table).read_bytes() if table and Path(table).is_file() else table
    words: list[str | bytes] = [given]
    for file in files:
        if file.is_file():
            with file.open("rb") as stream:
                name = str(file.relative_to(path)) if file != path else ""
                words += [name, hashlib.file_digest(stream, "sha256").digest()]
    return _digest(words)


def _place(job: Job) -> str:
    """Return a digest of a place, and of the size and times or tags of the files there."""
    files, path = fsspec.url_to_fs(job.url)
    names = sorted(files.find(path)) if files.isdir(path) else [path]
    return _digest([job.url, job.table, *(str(files.ukey(name)) for name in names)])


def _asked(job: Job) -> str:
    """Return _place(); a place elsewhere may not answer."""
    if inputs.local(job.url):
        return _place(job)
    return inputs.patiently(lambda: _place(job), job.patience_s, "listing it")


def _fetch(job: Job, room: Path) -> Path:
    """Copy a recording from elsewhere.

    Raises:
        TimeoutError: it took too long.
        OSError: and others that the file system of fsspec raises.
    """
    files, path = fsspec.url_to_fs(job.url)
    target = room / Path(path).name
    inputs.patiently(
        lambda: files.get(path, str(target), recursive=files.isdir(path)),
        job.patience_s,
        "fetching it",
    )
    return target


@contextmanager
def _at_hand(job: Job, work: Path) -> Iterator[Path]:
    """Yield the path of a recording on this machine."""
    if path := inputs.local(job.url):
        yield path
        return
    with scratch(work) as room:
        yield _fetch(job, room)


def _reduce(path: Path, job: Job, target: Path, work: Path) -> None:
    """Make the Parquet directory of a trace, or keep one that was fetched."""
    with scratch(work) as room:
        made = room / "intervals"
        if path.is_dir():
            path.rename(made)
        else:
            given = state_tables.given(job.table) if job.table else ()
            columns.write(path, made, context_with(path, given) if given else None)
        if job.scrub:
            names.remove(made)
        with suppress(OSError):  # another worker has put the same there
            made.rename(target)
    if not columns.is_recording(target):
        raise FileNotFoundError(f"{target}: cannot be put there")


def _kind(tables: Sequence[StateTable]) -> str:
    """Return the name of a kind of machine by its idle states."""
    texts = [
        f"{table.count} states to {table.names[-1]} {table.exit_latency_ns[-1] / 1000:g}/"
        f"{table.target_residency_ns[-1] / 1000:g} us #{_digest([repr(table)])[:4]}"
        for table in dict.fromkeys(tables)
    ]
    return " + ".join(sorted(texts))


def _span_ns(recording: Recording) -> int:
    """Return the time from the first idle interval to the end of the last."""
    first, last = [], []
    for cpu in recording.cpus:
        for chunk in recording.intervals(cpu, ["start_ns", "length_ns"]):
            start = chunk["start_ns"].astype(np.int64)
            first.append(int(start.min()))
            last.append(int((start + chunk["length_ns"]).max()))
    return max(last) - min(first) if first else 0


def _why(result: Result, source: Source) -> str:
    """Return why a governor has no regret on a recording, "" if it has."""
    if kinds := withheld.above(source.shares):
        return withheld.KINDS[kinds[0]].text.format(share=f"{source.shares[kinds[0]]:.3f}")
    if result.untimed:
        return "it needs timers, of which the recording tells nothing"
    if result.broken:
        return invariants.said(result.broken[0])
    return "" if result.outcome.oracle_pj else "no interval could be replayed"


def row(
    content: str, result: Result, source: Source, span_ns: int, deep: tuple[int, int] | None
) -> dict[str, Any]:
    """Return a part: energies in pJ, rounded so that their sums do not depend on the order.

    Args:
        content: digest of the recording.
        result: of the governor.
        source: the recording.
        span_ns: its length.
        deep: time of the domains at their deepest level, and their idle time; None: unknown.
    """
    outcome, far = result.outcome, result.far or result.outcome
    tables = list(source.state_tables.values())
    return {
        "content": content,
        "governor": result.label,
        "kernel": source.kernel,
        "kind": _kind(tables),
        "derived": any(model_of(table).derived for table in tables),
        "withheld": _why(result, source),
        "span_ns": span_ns,
        "intervals": outcome.intervals,
        "decisions": outcome.periods,
        "above": outcome.above,
        "below": outcome.below,
        "cost_pj": round(outcome.cost_pj),
        "oracle_pj": round(outcome.oracle_pj),
        "far_cost_pj": round(far.cost_pj),
        "far_oracle_pj": round(far.oracle_pj),
        "deep_ns": deep[0] if deep else None,
        "together_ns": deep[1] if deep else None,
        "latency_ns": sorted(outcome.latency_ns),
        "wakeups": [outcome.latency_ns[key] for key in sorted(outcome.latency_ns)],
    }


def _deep(
    path: Path, job: Job, chosen: Sequence[Candidate], given: Sequence[CpuTable]
) -> dict[str, tuple[int, int]]:
    """Return the times of domains by governor, as of deep_ns(); none without domains.

    Raises:
        UserError: the tree is unknown, or does not fit the recording.
    """
    if not (job.domains and chosen):
        return {}
    rows = replayed.rows_alone(path, job.domains, chosen, given)
    return {label: replayed.deep_ns(one) for label, one in rows.items() if not one.untimed}


def _replay(path: Path, job: Job, content: str, wanted: Sequence[str]) -> tuple[int, int]:
    """Replay governors on a recording and write their parts.

    Returns:
        Number of parts, and of the intervals that were replayed.
    """
    folder = Path(job.folder)
    chosen: list[Candidate] = [candidate(label) for label in wanted if label != RECORDED]
    # A trace was read with the idle states that are given; a directory is as it was.
    bare = bool(job.table) and Recording(path).kind == columns.CPU_IDLE
    given = state_tables.given(job.table) if bare else ()
    with ExitStack() as stack:
        source, recording = open_source(path, job.url, given, stack)
        if source.intervals < FEW_INTERVALS:
            raise UserError(f"{job.url}: has {source.intervals} intervals, fewer than "
                            f"{FEW_INTERVALS}")  # fmt: skip
        span_ns = _span_ns(recording)
        found = [item for item in model.of_one(source, recording, chosen) if item.label in wanted]
    deep = _deep(path, job, chosen, given)
    for result in found:
        told = row(content, result, source, span_ns, deep.get(result.label))
        frame = pl.DataFrame([told], schema=PART)
        data = io.BytesIO()
        frame.write_parquet(data, statistics=False)
        put(folder / part_name(content, result.label, job.domains), data.getvalue())
    return len(found), sum(item.outcome.intervals for item in found)


def _work(job: Job, hide: Callable[[Path], None]) -> Done:
    folder = Path(job.folder)
    work, index = folder / "work", folder / "index" / _asked(job)
    content = index.read_text() if index.is_file() else ""
    labels = (*job.governors, RECORDED)

    def parts() -> dict[str, str]:
        names = {label: part_name(content, label, job.domains) for label in labels}
        return {label: name for label, name in names.items() if (folder / name).is_file()}

    def all_there() -> bool:
        return bool(content) and {*job.governors} <= {*parts()}

    if all_there():
        return Done(content, parts())
    reduced = folder / kept_name(content, job.scrub)
    with ExitStack() as stack:
        if not (content and columns.is_recording(reduced)):
            path = stack.enter_context(_at_hand(job, work))
            hide(path)
            content = _content(path, job.table)
            put(index, content.encode())
            if all_there():
                return Done(content, parts())
            reduced = folder / kept_name(content, job.scrub)
            if path.is_dir() and path == inputs.local(job.url):
                reduced = path
            elif not columns.is_recording(reduced):
                _reduce(path, job, reduced, work)
        hide(reduced)
        wanted = [label for label in labels if label not in parts()]
        fresh, intervals = _replay(reduced, job, content, wanted)
    return Done(content, parts(), fresh=fresh, intervals=intervals)


def _cpu_s() -> float:
    """Return the CPU time of this process but for its first thread, in which dask's loop runs."""
    first = threading.main_thread()
    if first is threading.current_thread() or first.ident is None:
        return time.process_time()
    return time.process_time() - time.clock_gettime(time.pthread_getcpuclockid(first.ident))


def work(job: Job) -> dict[str, Any]:
    """Do a task; a fault of the recording is told, one that another try may mend is raised.

    Returns:
        Done, as a dictionary.

    Raises:
        OSError: and others of fetching, of a full disk.
    """
    hidden: list[str] = []
    before_s = _cpu_s()
    try:
        done = _work(job, lambda path: hidden.append(str(path)))
    except UserError as error:
        message = error.message
        for name in sorted(hidden, key=len, reverse=True):
            message = message.replace(name, job.url)
        done = Done(sentence=message.removeprefix(f"{job.url}: "))
    done.cpu_s = _cpu_s() - before_s
    return asdict(done)
