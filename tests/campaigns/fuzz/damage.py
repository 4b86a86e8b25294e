# SPDX-License-Identifier: GPL-2.0
"""Recordings that are damaged by intent: valid ones, changed, in every form that is read."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.formats import perfetto
from cpuidle_lab.recording.formats.writer import Event, Writer
from tests.unit.interrupts import Arm
from tests.unit.kernel_events import EXIT, KERNEL, MACHINE, MS, Kernel
from tests.unit.synthetic import Session
from tests.unit.tracedat import SIZES, Trace

# Values of a number, and factors of a rate or a time.
BORDERS = (0, 1, -1, 255, 2**31 - 1, 2**32 - 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
FACTORS = (0.0, 0.001, 0.5, 0.999, 1.001, 3.0, 1000.0, 1e6)
# The greatest time that a record of the ring buffer tells.
_TIME_MAX = 1 << 58
NAMES = ("", "C1", "C1", "a,b", "a:b", "POLL", "x" * 40, "\x1b[31m", "é", "%s", " ", "<b>")


@dataclass(frozen=True)
class Kept:
    """An event of the module, or a mark beside it.

    Attributes:
        cpu: that recorded it.
        ts: time, ns.
        name: of the event.
        values: its fields.
        lost: events that are missing before it.
    """

    cpu: int
    ts: int
    name: str
    values: Mapping[str, object]
    lost: int = 0


AnyEvent = Event | Kept
Events = list[AnyEvent]
Mutation = Callable[[Events, random.Random], Events]


class _Keeping(Trace):
    """A trace that keeps its events."""

    def __init__(self, cpus: int) -> None:
        super().__init__(cpus)
        self.kept: Events = []

    def put(
        self, cpu: int, ts: int, name: str, values: Mapping[str, object], lost: int = 0
    ) -> None:
        self.kept.append(Kept(cpu, ts, name, values, lost))


@cache
def of_module() -> tuple[AnyEvent, ...]:
    """Return the events of a session with the module: two governors on two CPUs."""
    session = Session(2, 1)
    session.trace = trace = _Keeping(2)
    for governor, workload in (("teo_ng", "cyclictest"), ("gate", "bursts")):
        session.phase(governor, workload, 50_000_000)
    return tuple(trace.kept)


@cache
def of_kernel(has_probes: bool) -> tuple[AnyEvent, ...]:
    """Return the events of an unmodified kernel: all that probes tell, or power:cpu_idle alone."""
    chance = random.Random(2)
    found: Events = []
    for cpu in range(2):
        kernel = Kernel((MACHINE, KERNEL) if cpu == 0 else ())
        for _ in range(80):
            state = chance.choice((0, 1, 1, 2, 2))
            stay = int(chance.expovariate(1 / (5 * MS))) + 1000
            if has_probes:
                sleep = stay + 500 if chance.random() < 0.7 else None
                is_tick = chance.random() < 0.1
                kernel.idle(state, stay, sleep=sleep, delta=MS, stop=not is_tick, tick=is_tick)
            else:
                kernel.add(50_000, "cpu_idle", state=state, cpu_id=cpu)
                kernel.add(stay, "cpu_idle", state=EXIT, cpu_id=cpu)
        found += [replace(event, cpu=cpu) for event in kernel.events]
    return tuple(sorted(found, key=lambda event: event.ts))


@cache
def of_interrupts() -> tuple[AnyEvent, ...]:
    """Return the events of two CPUs, and the interrupts of timers and devices that wake them."""
    chance = random.Random(3)
    found: Events = []
    for cpu in range(2):
        arm = Arm(cpu)
        arm.learn()
        for _ in range(80):
            wake = chance.choice((arm.timer, arm.device))
            wake(int(chance.expovariate(1 / MS)) + 5000, chance.randrange(3))
        found += arm.events
    return tuple(sorted(found, key=lambda event: event.ts))


# ---- Changes of events ----


def _piece(events: Events, chance: random.Random) -> tuple[int, int]:
    at = chance.randrange(len(events))
    return at, min(len(events), at + chance.choice((1, 2, 5, 30, 200)))


def _reorder(events: Events, chance: random.Random) -> Events:
    at, end = _piece(events, chance)
    times = [event.ts for event in events[at:end]]
    others = chance.sample(events[at:end], end - at)
    if chance.random() < 0.8:  # else time runs backwards
        others = [replace(event, ts=ts) for event, ts in zip(others, times, strict=True)]
    return [*events[:at], *others, *events[end:]]


def _cut(events: Events, chance: random.Random) -> Events:
    at, end = _piece(events, chance)
    return chance.choice(([*events[:at], *events[end:]], events[:end], events[at:]))


def _drop_kind(events: Events, chance: random.Random) -> Events:
    name, share = chance.choice(events).name, chance.choice((0.02, 0.5, 1.0))
    return [event for event in events if event.name != name or chance.random() > share]


def _duplicate(events: Events, chance: random.Random) -> Events:
    at, end = _piece(events, chance)
    again = events[at:end]
    if chance.random() < 0.5:
        again = [replace(event, ts=events[end - 1].ts) for event in again]
    return [*events[:end], *again, *events[end:]]


def _rescale(events: Events, chance: random.Random) -> Events:
    factor, at = chance.choice(FACTORS), chance.choice((0, chance.randrange(len(events))))
    start = events[at].ts
    later = [
        replace(event, ts=max(0, start + int((event.ts - start) * factor))) for event in events[at:]
    ]
    return [*events[:at], *later]


def _shift(events: Events, chance: random.Random) -> Events:
    by = chance.choice((-1_000_000_000, 10**9, 10**12, 10**18, 2**61, 1 - events[0].ts))
    return [replace(event, ts=max(0, event.ts + by)) for event in events]


def _drop_cpu(events: Events, chance: random.Random) -> Events:
    cpu, to = chance.choice(((0, None), (1, None), (1, 0), (1, 7), (0, 300), (1, 4095)))
    if to is None:
        return [event for event in events if event.cpu != cpu]
    return [replace(event, cpu=to) if event.cpu == cpu else event for event in events]


def _lose(events: Events, chance: random.Random) -> Events:
    at = chance.randrange(len(events))
    lost = chance.choice((1, 100, -1, 10**9))
    return [*events[:at], replace(events[at], lost=lost), *events[at + 1 :]]


def _number(value: int, chance: random.Random) -> int:
    return chance.choice((int(value * chance.choice(FACTORS)), chance.choice(BORDERS)))


def _change_value(events: Events, chance: random.Random) -> Events:
    at, end = _piece(events, chance)
    fields = sorted({name for event in events[at:end] for name in event.values})
    if not fields:
        return events
    name = chance.choice(fields)
    same = chance.choice((None, chance.choice(BORDERS)))

    def changed(event: AnyEvent) -> AnyEvent:
        value = event.values.get(name)
        if not isinstance(value, int):
            return event
        new = _number(value, chance) if same is None else same
        values: dict[str, Any] = {**event.values, name: new}
        return replace(event, values=values)

    return [*events[:at], *map(changed, events[at:end]), *events[end:]]


def _table(text: str, chance: random.Random) -> str:
    """Return a machine line with one state changed, added or left out."""
    head, _, states = text.partition("states=")
    found = [state.split(":") for state in states.split(",")]
    at = chance.randrange(len(found))
    match chance.randrange(4):
        case 0:
            found[at][chance.randrange(1, 4)] = str(chance.choice((*BORDERS, 7, 0.5)))
        case 1:
            found[at][0] = chance.choice(NAMES)
        case 2:
            del found[at]
        case _:
            found.insert(at, found[at])
    return f"{head}states={','.join(':'.join(state) for state in found)}"


def _change_config(values: Mapping[str, object], chance: random.Random) -> dict[str, object]:
    name = chance.choice(sorted(values))
    value = values[name]
    new: object = chance.choice(NAMES)
    if isinstance(value, int):
        new = _number(value, chance)
    elif isinstance(value, list):
        new = list(value)
        new[chance.randrange(4)] = _number(1000, chance)
        if chance.random() < 0.3:
            new = value[::-1]
    elif name == "names":
        new = ",".join(chance.choice(NAMES) for _ in range(chance.choice((1, 4, 9))))
    return {**values, name: new}


def _change_table(events: Events, chance: random.Random) -> Events:
    """Change what tells the idle states, for one CPU or all."""
    is_for_all = chance.random() < 0.5
    seed = chance.random()
    out: Events = []
    for event in events:
        again = random.Random(seed) if is_for_all else chance
        is_chosen = is_for_all or chance.random() < 0.5
        if is_chosen and isinstance(event, Kept) and event.name == "config":
            event = replace(event, values=_change_config(event.values, again))
        elif is_chosen and isinstance(event, Event) and event.text.startswith("stock machine"):
            event = replace(event, text=_table(event.text, again))
        out.append(event)
    return out


def _change_mark(events: Events, chance: random.Random) -> Events:
    words = ("phase end", "phase governor=", "phase governor=teo workload=\x1b[2J", "phase",
             "stock kernel=9.9", "stock end cpus=0-1", "stock request", "x" * 3000)  # fmt: skip
    at = chance.randrange(len(events))
    one, text = events[at], chance.choice(words)
    new: AnyEvent = Event(one.cpu, one.ts, "print", text=text)
    if isinstance(one, Kept):
        new = Kept(one.cpu, one.ts, "print", {"buf": text + "\n"})
    return [*events[:at], new, *events[at:]]


MUTATIONS: tuple[Mutation, ...] = (
    _reorder, _cut, _drop_kind, _duplicate, _rescale, _shift, _drop_cpu, _lose, _change_value,
    _change_table, _change_mark,
)  # fmt: skip


def mutated(events: Sequence[AnyEvent], chance: random.Random) -> Events:
    """Return events after one to four changes; none is as likely as any."""
    out = list(events)
    for _ in range(chance.choice((0, 1, 1, 2, 3, 4))):
        if out:
            out = chance.choice(MUTATIONS)(out, chance)
    return out


# ---- Forms ----


def _field(number: int, value: int | bytes) -> bytes:
    """Return a field of a protocol buffer."""

    def varint(n: int) -> bytes:
        n &= 2**64 - 1
        out = bytearray()
        while n >= 0x80:
            out.append(n & 0x7F | 0x80)
            n >>= 7
        return bytes([*out, n])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def as_perfetto(events: Events, path: Path) -> None:
    """Write what Perfetto records of events of a kernel."""
    out = _field(perfetto.PACKET, _field(8, 5))
    for event in events:
        assert isinstance(event, Event)
        told = _field(perfetto.TIMESTAMP, event.ts)
        if event.name == "cpu_idle":
            told += _field(perfetto.CPU_IDLE, _field(perfetto.STATE, event.values.get("state", 0)))
        elif event.name == "print":
            told += _field(perfetto.PRINT, _field(perfetto.BUF, event.text.encode()))
        bundle = _field(perfetto.CPU, event.cpu) + _field(perfetto.EVENT, told)
        if event.lost:
            bundle += _field(perfetto.LOST_EVENTS, 1)
        out += _field(perfetto.PACKET, _field(perfetto.FTRACE_EVENTS, bundle))
    path.write_bytes(out)


def as_text(events: Events, path: Path) -> None:
    """Write the lines of trace-cmd report."""
    lines = ["cpus=2"]
    for event in events:
        assert isinstance(event, Event)
        if event.lost:
            lines.append(f"CPU:{event.cpu} [{max(event.lost, 0)} EVENTS DROPPED]")
        rest = " ".join(f"{name}={value}" for name, value in event.values.items())
        if event.name in ("hrtimer_expire_entry", "hrtimer_start"):
            rest += f" function={event.text}"
        if event.name == "print":
            rest = event.text
        seconds, ns = divmod(event.ts, 10**9)
        lines.append(f"  <idle>-0  [{event.cpu:03}]  {seconds}.{ns:09}: {event.name}: {rest}")
    path.write_text("\n".join(lines) + "\n")


def as_dat(events: Events, path: Path) -> None:
    """Write a trace.dat.

    Raises:
        UserError: the writer of the program itself refuses it.
    """
    if all(isinstance(event, Event) for event in events):
        with Writer(path) as writer:
            for event in events:
                assert isinstance(event, Event)
                writer.add(event)
        return
    trace = Trace(1 + max(event.cpu for event in events))
    for event in events:
        ts = min(event.ts, _TIME_MAX)
        trace.put(event.cpu, ts, event.name, _fitting(trace, event), event.lost)
    trace.write(path)


def _fitting(trace: Trace, event: AnyEvent) -> dict[str, object]:
    """Return values that the fields of an event can hold."""
    limits = {item.name: item for item in trace.events[event.name].fields}

    def fit(name: str, value: object) -> object:
        if isinstance(value, list):
            return [fit(name, one) for one in value]
        if not isinstance(value, int) or limits[name].kind in ("string", "bytes", "tail"):
            return value
        bits, signed = _width(limits[name].type)
        value &= (1 << bits) - 1
        return value - (1 << bits) * (signed and value >> (bits - 1))

    return {name: fit(name, value) for name, value in event.values.items()}


def _width(kind: str) -> tuple[int, bool]:
    size, signed = SIZES[kind]
    return 8 * size, signed


# ---- Directories of columns ----


def _changed_frame(frame: pl.DataFrame, chance: random.Random) -> pl.DataFrame:
    rows = frame.height
    at, size = chance.randrange(rows), chance.choice((1, 3, 50))
    piece = frame.slice(at, size)
    match chance.randrange(6):
        case 0:
            return pl.concat([frame.head(at), frame.slice(at + size)])
        case 1:
            return pl.concat([frame.head(at + size), piece, frame.slice(at + size)])
        case 2:
            return frame.sample(fraction=1.0, shuffle=True, seed=chance.randrange(99))
        case 3:
            return frame.drop(chance.choice(frame.columns))
    names = [name for name, kind in frame.schema.items() if kind.is_integer()]
    name = chance.choice(names)
    kind = frame.schema[name]
    value = pl.lit(chance.choice(BORDERS))
    if chance.random() < 0.5:
        value = (pl.col(name).cast(pl.Float64) * chance.choice(FACTORS)).cast(
            pl.Int64, strict=False
        )
    changed = pl.int_range(pl.len()).is_between(at, at + size)
    new = pl.when(changed).then(value.cast(kind, strict=False)).otherwise(pl.col(name))
    return frame.with_columns(new.fill_null(0).alias(name))


def _changed_meta(meta: dict[str, object], chance: random.Random) -> None:
    # An earlier change may have replaced it.
    machines = meta["machines"]
    if isinstance(machines, dict) and machines and chance.random() < 0.6:
        machine = machines[chance.choice(sorted(machines))]
        key = chance.choice(sorted(machine))
        if not isinstance(machine[key], list) or not machine[key]:
            machine[key] = chance.choice(BORDERS)
            return
        at = chance.randrange(len(machine[key]))
        if chance.random() < 0.2:
            del machine[key][at]
        else:
            machine[key][at] = chance.choice(NAMES if key == "names" else (*BORDERS, 0.5, None))
        return
    key = chance.choice(sorted(meta))
    meta[key] = chance.choice((None, 0, -1, "x", [], {}, *BORDERS))


def damage_columns(folder: Path, chance: random.Random) -> None:
    """Change the tables or the facts of a directory of columns."""
    meta = json.loads((folder / "meta.json").read_text())
    for _ in range(chance.choice((0, 1, 1, 2))):
        table = chance.choice(("interval", "interval", "period", "sleep", "config", "meta"))
        path = folder / table / "00000.parquet"
        if table == "meta" or not path.exists():
            _changed_meta(meta, chance)
            continue
        frame = pl.read_parquet(path)
        new = _changed_frame(frame, chance) if frame.height else frame
        new.write_parquet(path)
        if isinstance(meta.get("parts"), dict) and chance.random() < 0.8:
            meta["parts"].get(table, [[0, 0]])[0][1] = new.height
    (folder / "meta.json").write_text(json.dumps(meta))


def make(folder: Path, chance: random.Random) -> Path | None:
    """Write a damaged recording of a random form.

    Args:
        folder: an empty directory.
        chance: decides all.

    Returns:
        Its path; None where the changes leave nothing that could be written.
    """
    form = chance.choice(("dat", "dat", "text", "perfetto", "columns"))
    bases = [of_kernel(True), of_kernel(False)]
    if form in ("dat", "columns"):
        bases += [of_module(), of_module(), of_interrupts()]
    events: Events = list(chance.choice(bases))
    if form != "columns" or chance.random() < 0.3:
        events = mutated(events, chance)
    if not events:
        return None
    path = folder / f"recording.{form}"
    if form == "text":
        as_text(events, path)
    elif form == "perfetto":
        as_perfetto(events, path)
    else:
        trace = folder / "trace.dat"
        try:
            as_dat(sorted(events, key=lambda event: event.ts), trace)
            if form == "dat":
                return trace
            columns.write(trace, path)
        except UserError:
            return None
        damage_columns(path, chance)
    return path
