# SPDX-License-Identifier: GPL-2.0
"""The one way to open a dump: unpacked, told apart by its structure, and checked."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import TRACE
from cpuidle_lab.host.sysfs import parse_cpus
from cpuidle_lab.recording import formats
from cpuidle_lab.recording.dumps import bare, cpupower, named, own, turbostat
from cpuidle_lab.recording.dumps.model import COUNTERS, ONLINE, Cpu, Dump, Moment, left_out

# A dump of 8192 CPUs is smaller.
_MOST_BYTES = 256 << 20
# Enough of a file to know that it is a dump.
_HEAD_BYTES = 1 << 18

# Marks of a terminal's recording in the text, and of a mail's answer before it.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_QUOTE = re.compile(r"^(?:[>|] ?)+")

BARE = "values without names"

# Form, what counts its marks in a text, and what reads it. The first with a mark is the form.
_FORMS: tuple[
    tuple[str, Callable[[Sequence[str]], int], Callable[[Sequence[str]], tuple[Moment, ...]]], ...
] = (
    ("cpuidle-lab dump", own.begins, own.read),
    ("names and values", named.count, named.read),
    ("cpupower idle-info", cpupower.count, cpupower.read),
    (BARE, bare.count, bare.read),
)
FORMS = (
    "cpuidle-lab dump, grep -r . on cpuidle's files, head or tail of these, cat of these, "
    "cpupower idle-info, turbostat"
)

# A last line without an end is cut where it begins as a path, and may be a prompt else.
_PATH = re.compile(r"/|==|(?:cpu|state)\d")
_CUT = "its last line has no end, so it may be cut, and is left out"


def _lines(data: bytes) -> list[str]:
    text = _ESCAPE.sub("", data.decode("utf-8", errors="replace").replace("\0", ""))
    return [_QUOTE.sub("", line).strip() for line in re.split(r"\r\n|\r|\n", text)]


def _data(path: Path) -> bytes:
    if not path.is_file():
        raise UserError(f"{path}: " + ("is no file" if path.exists() else "no such file"))
    with formats.unpacked(path) as plain:
        if plain.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path}: is too large for a dump")
        return plain.read_bytes()


def _parse(data: bytes) -> Dump | None:
    whole = _lines(data)
    is_open = bool(whole[-1]) and whole[-1] != own.END
    lines = whole[:-1] if is_open else whole
    for form, count, read in _FORMS:
        if count(lines):
            moments = read(lines)
            if is_open and (read(whole) != moments or _PATH.match(whole[-1])):
                moments = (*moments[:-1], _noted(moments[-1], _CUT))
                if form == BARE:  # the numbers before may be those of another layout
                    moments = (replace(moments[-1], cpus=moments[-1].cpus[:-1]),)
            return Dump(form, tuple(map(_checked, moments)))
    if turbostat.count(lines):
        return Dump("turbostat", interval=turbostat.read(lines))
    return None


def _noted(moment: Moment, note: str) -> Moment:
    return replace(moment, notes=(note, *moment.notes))


def is_dump(path: Path) -> bool:
    """Tell whether a file begins like a dump; it may be damaged all the same."""
    if not path.is_file():
        return False
    try:
        with formats.unpacked(path) as plain, plain.open("rb") as stream:
            data = stream.read(_HEAD_BYTES)
    except UserError:
        return False
    if data.startswith(TRACE):
        return False
    lines = _lines(data)
    return any(count(lines) for _, count, _ in _FORMS) or bool(turbostat.count(lines))


def _checked(moment: Moment) -> Moment:
    """Return a moment without CPUs whose counters are missing, and with notes on what is missing.

    Raises:
        UserError: no CPU is left, or it may be two moments.
    """
    kept = tuple(cpu for cpu in moment.cpus if cpu.is_counted)
    notes = list(moment.notes)
    if lost := [cpu.number for cpu in moment.cpus if not cpu.is_counted]:
        fault = next((s.fault for cpu in moment.cpus for s in cpu.states if s.fault), "")
        why = f"a counter cannot be that ({fault[:40]})" if fault else "counters are missing"
        notes.append(left_out(lost, why))
    if parts := _parts(kept):
        notes.append(left_out((cpu.number for cpu in parts), "its last states are missing"))
        kept = tuple(cpu for cpu in kept if cpu not in parts)
    if not kept:
        why = "".join(f"; {note}" for note in notes)
        raise UserError(f"has no CPU with counters of all its idle states{why}")
    if not moment.numbered:
        _refuse_halves(moment)
        notes.append("it has no CPU numbers: those shown are places in the dump")
    try:
        online = set(parse_cpus(moment.files.get(ONLINE, "")))
    except ValueError:
        online = set()
    if absent := online.difference(cpu.number for cpu in moment.cpus):
        notes.append(left_out(absent, "it is online and has no idle states here"))
    return replace(moment, cpus=kept, notes=tuple(notes))


def _parts(cpus: Sequence[Cpu]) -> list[Cpu]:
    """Return the CPU that alone has the first states of another one's table, as a cut leaves it."""
    tables = [cpu.table for cpu in cpus]
    found = [
        cpu
        for cpu in cpus
        if any(len(cpu.table) < len(t) and t[: len(cpu.table)] == cpu.table for t in set(tables))
    ]
    return found if len(found) == 1 else []


def _refuse_halves(moment: Moment) -> None:
    half = len(moment.cpus) // 2
    pairs = list(zip(moment.cpus[:half], moment.cpus[half:], strict=False))
    if len(moment.cpus) % 2 or not pairs:
        return
    grown = all(
        low.table == high.table
        and all(
            (before.value(key) or 0) <= (after.value(key) or 0)
            for before, after in zip(low.states, high.states, strict=True)
            for key in COUNTERS
        )
        for low, high in pairs
    )
    if grown and any(low.states != high.states for low, high in pairs):
        raise UserError(
            f"may hold two dumps of {half} CPUs, or one of {len(moment.cpus)}, since its second "
            "half has grown from the first: put each dump into a file of its own"
        )


def read(path: Path) -> Dump:
    """Return the contents of a dump.

    Args:
        path: the file; it may be packed.

    Raises:
        UserError: it cannot be read, is of no known form, is ambiguous, or has no whole CPU.
    """
    data = _data(path)
    if data.startswith(TRACE):
        raise UserError(f"{path}: is a recording, not a dump: cpuidle-lab report {path}")
    try:
        found = _parse(data)
    except UserError as error:
        raise UserError(f"{path}: {error.message}", error.exit_code) from None
    if not data.strip():
        raise UserError(f"{path}: is empty")
    if not found:
        raise UserError(f"{path}: is no dump of idle states; known are: {FORMS}")
    return found
