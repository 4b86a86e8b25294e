# SPDX-License-Identifier: GPL-2.0
"""The figures of domains as tables of text, and these in the terminal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cpuidle_lab.domains.blame import AWAKE, SHALLOW, SHORT, Share
from cpuidle_lab.domains.observed import Observed, Part, Slept
from cpuidle_lab.domains.replayed import JOINT, Replayed, Row
from cpuidle_lab.figures.invariants import said
from cpuidle_lab.host.sysfs import cpu_list
from cpuidle_lab.view.terminal import console, grid, print_note

_PJ_PER_MJ = 1e9
_NS_PER_MS = 1e6

# Kinds of reasons, before what they are.
_KINDS = {AWAKE: "ran", SHALLOW: "in", SHORT: "ended sleeps by"}

_HEADS = [("governor", False), ("workload", False), ("domain", False), ("CPUs", False),
          ("s", True), ("could %", True), ("allowed %", True), ("paid %", True), ("mean mW", True),
          ("least mW", True)]  # fmt: skip
_WHO = [("domain", False), ("CPU", True), ("kept it awake", False), ("ms", True),
        ("alone ms", True), ("ended", True), ("mJ", True), ("%", True)]  # fmt: skip


def reason(share: Share) -> str:
    """Return a reason in words."""
    return f"{_KINDS[share.kind]} {share.why}"


def _row(part: Part, name: str, slept: Slept) -> list[str]:
    span, found = slept.span_ns, slept.account
    head = [part.governor or "?", part.workload, name, cpu_list(list(found.cpus))]
    if slept.broken:
        return [*head, f"{span / 1e9:.3f}", *"?????"]
    shares = (100 * time / span for time in (slept.could_ns, slept.allowed_ns, slept.paid_ns))
    mean, least = found.energy_pj() / span, found.domain.costs.power_mw[-1]
    return [*head, f"{span / 1e9:.3f}", *(f"{share:.1f}" for share in shares),
            f"{mean:.1f}", f"{least:.1f}"]  # fmt: skip


def _who(name: str, slept: Slept, top: int) -> Iterator[list[str]]:
    whole = sum(share.energy_pj for share in slept.shares)
    for share in [] if slept.broken else slept.shares[:top]:
        yield [
            name, str(share.cpu), reason(share), f"{share.time_ns / _NS_PER_MS:.3f}",
            f"{share.alone_ns / _NS_PER_MS:.3f}", str(share.ended),
            f"{share.energy_pj / _PJ_PER_MJ:.3f}",
            f"{100 * share.energy_pj / whole:.1f}" if whole else "",
        ]  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """A table of text.

    Attributes:
        title: above it.
        heads: title of each column, and whether it is aligned to the right.
        rows: cells.
    """

    title: str
    heads: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]


def asleep(found: Observed) -> Grid:
    """Return the table of how the domains slept."""
    rows = [_row(part, name, slept) for part in found.parts for name, slept in part.domains.items()]
    bound = "; sleeps are an upper bound" if found.missing else ""
    return Grid(f"sleep of its domains{bound}", _HEADS, rows)


def kept_awake(found: Observed, top: int) -> Iterator[Grid]:
    """Yield a table of the CPUs that kept domains awake for each phase that has any.

    Args:
        found: the figures.
        top: reasons to show of each domain.
    """
    for part in found.parts:
        lines = [line for name, slept in part.domains.items() for line in _who(name, slept, top)]
        title = " ".join(filter(None, (part.governor, part.workload)))
        if lines:
            yield Grid(f"{title or 'whole recording'}: CPUs that kept it awake", _WHO, lines)


def notes(found: Observed) -> list[str]:
    """Return what a reader must know: rules that figures break, then the notes."""
    every = [(name, slept) for part in found.parts for name, slept in part.domains.items()]
    broken = [f"{name}: {said(rule)}" for name, slept in every for rule in slept.broken]
    return [*broken, *found.notes]


def _print(out: Console, tables: Iterable[Grid], remarks: Iterable[str], path: Path) -> None:
    for n, each in enumerate(tables):
        title = each.title if n else f"{path}: {each.title}"
        out.print(grid(out, title, each.heads, each.rows))
    for note in remarks:
        print_note(out, note, soft_wrap=True)


def show(found: Observed, top: int) -> None:
    """Print the tables.

    Args:
        found: the figures.
        top: reasons to show of each domain.
    """
    _print(console(), [asleep(found), *kept_awake(found, top)], notes(found), found.path)


def _of(value: float | None, digits: int) -> str:
    return "?" if value is None else f"{value:.{digits}f}"


def _governor(found: Replayed, row: Row) -> list[str]:
    regret = found.regret(row) or (None, None, None)
    known = not (found.broken or row.untimed)
    joules = (each / _PJ_PER_MJ if known else None for each in (row.cpus_pj, row.domains_pj))
    deep = (row.deep_percent(name) if known else None for name in row.accounts)
    waits = (row.latency_us(share) if known else None for share in (0.5, 0.99, 1.0))
    return [row.label, *(_of(each, 2) for each in regret), *(_of(each, 1) for each in joules),
            *(_of(each, 1) for each in deep), *(_of(each, 1) for each in waits)]  # fmt: skip


def governors(found: Replayed) -> Grid:
    """Return the table of governors."""
    names = list(found.rows[0].accounts)
    heads = ["governor", "regret %", "own %", "neighbours %", "CPUs mJ", "domains mJ",
             *(f"{name} deep %" for name in names), "p50 us", "p99 us", "max us"]  # fmt: skip
    rows = [_governor(found, row) for row in found.rows]
    if found.joint.is_exact and not (found.withheld or found.broken):
        rows.append([JOINT, *(["0.00"] * 3), *([""] * (len(heads) - 4))])
    against = "" if found.joint.is_exact else ", against a lower bound"
    title = f"governors on all CPUs together; regret of the machine{against}"
    return Grid(title, [(head, head != "governor") for head in heads], rows)


def governor_notes(found: Replayed) -> list[str]:
    """Return what a reader must know: rules that figures break, then the notes."""
    return [*map(said, found.broken), *found.notes]


def show_governors(found: Replayed) -> None:
    """Print the table of governors."""
    _print(console(), [governors(found)], governor_notes(found), found.source.path)
