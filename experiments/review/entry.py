# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment review`: the past, as `review` would have foreseen it."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.base.settings import seconds
from cpuidle_lab.evidence.tables import MISSED, Cell, Section, Table
from cpuidle_lab.review import walk
from cpuidle_lab.review.patch import Patch
from cpuidle_lab.review.stream import phases_text, size_of, table_text
from experiments.experiment import COMMAND, QUICK, Findings, Job, Request, Row, run_jobs, wanted
from experiments.memo import Memo
from experiments.pages import wrapped
from experiments.review import pairs
from experiments.review.known import GOOD, KNOWN, OPEN, SAME, Known
from experiments.review.rating import DETECTED, NOT_JUDGED, PARTLY, UNJUDGEABLE, rate, shown
from experiments.review.row import Effort, Task, histories, judge, key, task

_TEMPLATE = Path(__file__).parent / "page.md"
_STREAMS, _QUICK = 4000, 500
# Of each pair of versions.
_BUDGET, _QUICK_BUDGET = "1m", "10s"
_LIST = "list"
# A search has a process; two of them keep a small machine busy.
_THREADS = 2
# A counterexample that a reviewer understands in a minute.
_STATES, _INTERVALS = 4, 20
_HAND = ", built by hand"
_NONE_BY_HAND = "No row was built by hand."
_SOME_BY_HAND = (
    "Rows built by hand: {}. Their mails are not there or have no place. They are edits of a "
    "packaged kernel after the patch's description, and count apart."
)

Found = Mapping[str, Any]

_PLACE = re.compile(r"\{\{(\w+)\}\}")


def _streams(request: Request) -> int:
    text = request.chosen.get("streams", str(_QUICK if request.scale == QUICK else _STREAMS))
    if not text.isdecimal() or not 0 < int(text) <= 10**9:
        raise UserError(f"--with streams={text}: is no number from 1 to 10^9", USAGE)
    return int(text)


def _budget_s(request: Request) -> float:
    text = request.chosen.get("budget", _QUICK_BUDGET if request.scale == QUICK else _BUDGET)
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as error:
        raise UserError(f"--with budget: {error}", USAGE) from None


def _figures(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    names = (("regret", "%"), ("power_mw", "mW"), ("latency_us", "us"), ("ticks_per_s", "ticks/s"))
    return ", ".join(f"{before[name]:.3g} -> {after[name]:.3g} {unit}" for name, unit in names)


def _witness(one: Found) -> str:
    spec = one["spec"]
    return (f"{one['objective']}: {table_text(spec)}: {phases_text(spec)}: "
            f"{_figures(one['before'], one['after'])}")  # fmt: skip


def _row(known: Known, found: Found | str) -> Row:
    if isinstance(found, str):
        state = UNJUDGEABLE if known.why_not and known.mail else NOT_JUDGED
        return Row(known.name, known.history, note=found, judged=state)
    if found["died"]:
        return Row(known.name, known.history, note=found["died"], judged=NOT_JUDGED)
    share = 100 * found["differ"] / max(1, found["periods"])
    return Row(known.name, known.history, [share], "% of decisions differ",
               note=known.why_not, judged=rate(known, found))  # fmt: skip


def _said(found: Found) -> str:
    if found["same"]:
        return f"no decision differs in {found['periods']:,} periods"
    harm, gain = (", ".join(one["objective"] for one in shown(found, kind)) or "none"
                  for kind in ("harm", "gain"))  # fmt: skip
    return f"harm: {harm}; gain: {gain}"


def _is_by_hand(one: Task | str) -> bool:
    return not isinstance(one, str) and one.by_hand


def _table(rows: Sequence[Row], tasks: Sequence[Task | str], found: Sequence[Found | str]) -> Table:
    cells: list[list[Cell]] = []
    for row, known, one, told in zip(rows, KNOWN, tasks, found, strict=True):
        said = row.note if isinstance(told, str) or told["died"] else _said(told)
        share = f"{row.ours[0]:.2g}" if row.ours else "-"
        name = f"{known.name}{_HAND if _is_by_hand(one) else ''}"
        cells.append([name, known.history, said, share, row.state])
    heads = ("change", "history", "review", "decisions that differ, %", "")
    return Table("The known changes", heads, cells)


def _places(tasks: Sequence[Task | str]) -> Table:
    cells = [[known.name, one if isinstance(one, str) else one.where]
             for known, one in zip(KNOWN, tasks, strict=True)]  # fmt: skip
    return Table("Where they were applied", ("change", "place"), cells)


def _witnesses(found: Sequence[Found | str]) -> Table:
    cells: list[list[Cell]] = []
    for known, told in zip(KNOWN, found, strict=True):
        if isinstance(told, str) or told["died"]:
            continue
        for kind in ("harm", "gain"):
            cells += [[known.name, kind, _witness(one)] for one in shown(told, kind)]
    return Table("Harm and gain that the search found", ("change", "", "smallest stream"), cells)


def _targets(
    rows: Sequence[Row], tasks: Sequence[Task | str], found: Sequence[Found | str]
) -> Table:
    """Return how many rows of each kind came out as history has it; those by hand apart."""
    harm = "harm among the three worst"
    names = {SAME: "no change called no change", GOOD: "good, and not called worse"}
    kinds: dict[str, list[str]] = {harm: [], **{name: [] for name in names.values()}}
    for known, row, one in zip(KNOWN, rows, tasks, strict=True):
        if known.wanted[0] != OPEN and row.state in (DETECTED, PARTLY, MISSED):
            kind = names.get(known.wanted[0], harm) + (_HAND if _is_by_hand(one) else "")
            kinds.setdefault(kind, []).append(row.state)
    cells: list[list[Cell]] = [
        [kind, states.count(DETECTED), states.count(PARTLY), states.count(MISSED)]
        for kind, states in kinds.items()
    ]
    specs = [one["counterexample"] for one in found
             if not isinstance(one, str) and one.get("counterexample")]  # fmt: skip
    small = sum(size_of(one)[0] <= _STATES and size_of(one)[1] <= _INTERVALS for one in specs)
    cells.append([f"counterexample of at most {_STATES} states and {_INTERVALS} intervals", small,
                  None, len(specs) - small])  # fmt: skip
    return Table("In short", ("", DETECTED, PARTLY, "missed"), cells)


class Review:
    """Verdicts of `review` on changes whose effect is known."""

    name = "review"
    title = "Would review have foreseen the past?"
    claim = "Regressions of menu and teo were found by users, months after the change was merged."
    source = "linux-pm, June 2024 to March 2026: the Message-IDs are in experiments/review/known.py"
    question = "Does a search on replay, which is told nothing, name the harm that was found later?"
    in_lab = False
    choices: Mapping[str, str] = {
        "streams": f"that each search plays (default: {_STREAMS})",
        "budget": f"CPU time of each pair of versions (default: {_BUDGET})",
    }
    parts: Mapping[str, str] = {
        _LIST: "changes whose effect is known",
        pairs.PART: "all pairs of packaged versions, and the newest against ours",
    }

    def refusals(self, request: Request) -> list[str]:
        """Return nothing: without mails their rows are built by hand, or say why not.

        Raises:
            UserError: a number is none.
        """
        _streams(request)
        _budget_s(request)
        return []

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Put each change at its place, and search; then search between versions."""
        result, values = Findings(), dict[str, str]()
        for part in wanted(self, request):
            measured = _measure_list if part == _LIST else _measure_pairs
            values |= measured(result, request, memo, meter)
        result.page = _page(values)
        return result


def _measure_list(result: Findings, request: Request, memo: Memo, meter: Meter) -> dict[str, str]:
    """Add the known changes to a result; return what the page has of them."""
    streams = _streams(request)
    mails = walk.read(request.mails) if request.mails.is_dir() else []
    history = histories(mails) if mails else {}
    tasks = [_task(known, mails, history) for known in KNOWN]
    jobs = {n: Job(key(one, streams), _work(one, streams))
            for n, one in enumerate(tasks) if not isinstance(one, str)}  # fmt: skip
    told = run_jobs([*jobs.values()], memo, meter, "Searching for harm and gain", _THREADS)
    known = dict(zip(jobs, told, strict=True))
    found = [one if isinstance(one, str) else known[n] for n, one in enumerate(tasks)]
    rows = [_row(one, what) for one, what in zip(KNOWN, found, strict=True)]
    tables = [_targets(rows, tasks, found), _table(rows, tasks, found), _places(tasks),
              _witnesses(found)]  # fmt: skip
    result.rows = rows
    result.sections.append(Section(_LIST, EXPERIMENT.title, tables=tables))
    result.sources["searches"] = f"{streams:,} streams each"
    by_hand = sum(map(_is_by_hand, tasks))
    return {
        "streams": f"{streams:,}", "misses": _misses(rows),
        "hand": _SOME_BY_HAND.format(by_hand) if by_hand else _NONE_BY_HAND,
        **{f"table{n}": _titled(one) for n, one in enumerate(tables)},
    }  # fmt: skip


def _measure_pairs(result: Findings, request: Request, memo: Memo, meter: Meter) -> dict[str, str]:
    """Add the pairs of versions to a result; return what the page has of them."""
    budget_s = _budget_s(request)
    section = pairs.section(pairs.searched(budget_s, memo, meter), _witness)
    result.sections.append(section)
    result.sources["pairs"] = f"{budget_s:,} s of CPU time each"
    return {"budget": f"{budget_s:,}", "alike": pairs.alike(),
            **{f"pairs{n}": _titled(one) for n, one in enumerate(section.tables)}}  # fmt: skip


def _titled(table: Table) -> str:
    return f"**{table.title}**\n\n{table.markdown()}"


def _task(known: Known, mails: Sequence[Patch], history: Mapping[str, Sequence[walk.Step]]
          ) -> Task | str:  # fmt: skip
    """Return a change at its place, or why it has none."""
    if known.mail and known.why_not:
        return known.why_not
    try:
        return task(known, mails, history)
    except UserError as error:
        return error.message


def _work(one: Task, streams: int) -> Callable[[], Any]:
    return lambda: judge(one, Effort(streams))


def _misses(rows: Sequence[Row]) -> str:
    """Return the rows in which review says other than history, with the reason."""
    found = [f"- {known.name}: {known.missed or 'no reason is known'}."
             for known, row in zip(KNOWN, rows, strict=True)
             if row.state in (MISSED, PARTLY)]  # fmt: skip
    return "\n".join(found) or "None."


def _page(values: Mapping[str, str]) -> str:
    known = {"command": COMMAND, **values}
    text = _TEMPLATE.read_text(encoding="utf-8")
    return wrapped(_PLACE.sub(lambda found: known.get(found[1], "Not measured."), text))


EXPERIMENT = Review()
