# SPDX-License-Identifier: GPL-2.0
"""Result of a search: the Pareto front, one point of it, and its verdict by held-out traces."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from optuna.trial import FrozenTrial
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpuidle_lab.host.machine import LAB
from cpuidle_lab.tune.pieces import Figures, Split
from cpuidle_lab.tune.space import Range, settings_of
from cpuidle_lab.view.terminal import console, new_table, print_note

# Digits that are shown; what does not differ in them counts as equal where points are judged.
_DIGITS = 2


@dataclass(frozen=True)
class Point:
    """A trial on the front.

    Attributes:
        trial: its number.
        settings: values of the tunables that were searched.
        regret: as Figures has it, on the traces that were searched on.
        p99_us: likewise.
    """

    trial: int
    settings: dict[str, int]
    regret: float
    p99_us: float


def front(trials: Iterable[FrozenTrial], searched: Sequence[Range]) -> list[Point]:
    """Return the trials that no other beats in one figure without losing in the other.

    Args:
        trials: that are complete.
        searched: what their parameters mean.

    Returns:
        The points by rising regret; of trials that came to the same, the first.
    """
    best: list[Point] = []
    for trial in sorted(trials, key=lambda trial: (*trial.values, trial.number)):
        if not best or trial.values[1] < best[-1].p99_us:
            settings = settings_of(searched, trial.params)
            best.append(Point(trial.number, settings, trial.values[0], trial.values[1]))
    return best


def _knee(points: Sequence[Point]) -> Point:
    low_regret, high_regret = points[0].regret, points[-1].regret
    low_p99, high_p99 = points[-1].p99_us, points[0].p99_us

    def distance(point: Point) -> float:
        return math.hypot(
            (point.regret - low_regret) / ((high_regret - low_regret) or 1),
            (point.p99_us - low_p99) / ((high_p99 - low_p99) or 1),
        )

    return min(points, key=distance)


# Ways to pick one point of a front, by rising regret; the text is the help.
PICKS: dict[str, tuple[Callable[[Sequence[Point]], Point], str]] = {
    "knee": (
        _knee,
        "nearest to the corner of least regret and least p99, each scaled to the front's extent; "
        "the one of less regret where two are as near",
    ),
    "energy": (lambda points: points[0], "least regret"),
    "latency": (lambda points: points[-1], "least p99"),
}


@dataclass(frozen=True)
class Verdict:
    """Verdict of the held-out traces on the picked point, against the default values.

    Attributes:
        better: less in one figure, and not more in the other.
        text: one sentence.
    """

    better: bool
    text: str


def judge(picked: Figures, default: Figures) -> Verdict:
    """Compare what the picked point and the default values come to on the held-out traces."""
    gains = (
        round(default.regret, _DIGITS) - round(picked.regret, _DIGITS),
        round(default.p99_us, _DIGITS) - round(picked.p99_us, _DIGITS),
    )
    said = [
        f"{what} {abs(gain):.{_DIGITS}f} {unit} {'less' if gain > 0 else 'more'}"
        for what, unit, gain in zip(
            ("regret", "p99 latency"), ("percentage points", "us"), gains, strict=True
        )
        if gain
    ]
    if not said:
        return Verdict(False, "NOT BETTER than the defaults: the same on the held-out traces")
    detail = ", ".join(said)
    if min(gains) >= 0:
        return Verdict(True, f"better than the defaults on the held-out traces: {detail}")
    if max(gains) <= 0:
        return Verdict(
            False, f"NOT BETTER than the defaults, but worse on the held-out traces: {detail}"
        )
    return Verdict(
        False, f"NOT BETTER than the defaults, but a trade on the held-out traces: {detail}"
    )


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        name: "trial N", or what it is compared with.
        settings: None where it is another governor.
        search: on the traces that were searched on: regret in percent, p99 in us.
        held_out: on the others.
    """

    name: str
    settings: dict[str, int] | None
    search: tuple[float, float]
    held_out: Figures


@dataclass(frozen=True)
class Tuning:
    """All that is printed.

    Attributes:
        governor: as on the command line.
        searched: ranges of its tunables.
        split: the traces.
        study: name of the study.
        database: where it is, without password.
        seed: of the search.
        complete: trials that count.
        front: its points, by rising regret.
        references: the default values, and mainline's governors.
        pick: how one was picked.
        picked: which one of `front`.
        notes: what is missing.
    """

    governor: str
    searched: tuple[Range, ...]
    split: Split
    study: str
    database: str
    seed: int
    complete: int
    front: tuple[Row, ...]
    references: tuple[Row, ...]
    pick: str
    picked: int
    notes: tuple[str, ...]

    @property
    def choice(self) -> Row:
        """The point that was picked."""
        return self.front[self.picked]

    @property
    def verdict(self) -> Verdict:
        """Its verdict by the held-out traces."""
        return judge(self.choice.held_out, self.references[0].held_out)

    def changes(self) -> dict[str, str]:
        """Return the values of the choice that are not the defaults."""
        chosen = self.choice.settings or {}
        return {
            item.name: item.shown(chosen[item.name])
            for item in self.searched
            if chosen[item.name] != item.tunable.default
        }

    def commands(self) -> list[str]:
        """Return what sets the choice in debugfs, whatever is set there now."""
        folder = f"{LAB}/{self.governor}"
        changes = [f"echo {value} > {folder}/{name}" for name, value in self.changes().items()]
        return [f"echo 1 > {folder}/defaults", *changes] if changes else []

    def option(self) -> str | None:
        """Return what sets the choice when the module is loaded; None where nothing is set."""
        text = " ".join(f"{name}={value}" for name, value in self.changes().items())
        return f'options cpuidle_lab {self.governor}="{text}"' if text else None

    def _row(self, row: Row) -> dict[str, object]:
        settings = row.settings
        return {
            "name": row.name,
            "settings": settings
            and {item.name: item.shown(settings[item.name]) for item in self.searched},
            "search": dict(zip(("regret", "p99_us"), row.search, strict=True)),
            "held_out": {"regret": row.held_out.regret, "p99_us": row.held_out.p99_us},
            "held_out_traces": [
                {"trace": str(piece.path), "regret": regret, "p99_us": p99_us}
                for piece, (regret, p99_us) in zip(
                    self.split.held_out, row.held_out.each, strict=True
                )
            ],
        }

    def as_json(self) -> dict[str, object]:
        """Return everything; regret in percent, latencies in us."""
        return {
            "governor": self.governor,
            "study": self.study,
            "database": self.database,
            "seed": self.seed,
            "trials": self.complete,
            "searched": [
                {
                    "name": item.name,
                    "low": item.shown(item.low),
                    "high": item.shown(item.high),
                    "default": item.shown(item.tunable.default),
                    "log": item.log,
                }
                for item in self.searched
            ],
            "traces": {
                "search": [str(piece.path) for piece in self.split.search],
                "held_out": [str(piece.path) for piece in self.split.held_out],
                "how": self.split.how,
            },
            "front": [self._row(row) for row in self.front],
            "references": [self._row(row) for row in self.references],
            "pick": {"how": self.pick, "name": self.choice.name},
            "verdict": asdict(self.verdict),
            "commands": self.commands(),
            "option": self.option(),
            "notes": list(self.notes),
        }

    def _table(self, out: Console) -> Table:
        table = new_table(out)
        table.add_column("")
        for what in ("search", "held out"):
            table.add_column(f"regret %\n{what}", justify="right")
            table.add_column(f"p99 us\n{what}", justify="right")
        for item in self.searched:
            table.add_column(f"{item.name}\n{item.tunable.unit}", justify="right")
        for number, row in enumerate((*self.front, *self.references)):
            held_out = row.held_out.regret, row.held_out.p99_us
            settings = row.settings
            table.add_row(
                f"{row.name}{' <' if number == self.picked else ''}",
                *(f"{value:.{_DIGITS}f}" for value in (*row.search, *held_out)),
                *(item.shown(settings[item.name]) if settings else "" for item in self.searched),
                end_section=number == len(self.front) - 1,
            )
        return table

    def show(self) -> None:
        """Print it; plain text where the output is no terminal."""
        out = console()
        searched, held_out = len(self.split.search), len(self.split.held_out)
        out.print(
            Text(
                f"{self.governor}: {self.complete} trials on {searched} trace(s), "
                f"{held_out} held out: {self.split.how}"
            )
        )
        out.print(self._table(out))
        for note in self.notes:
            print_note(out, note)
        out.print(Text(f"<  {self.choice.name}, picked by {self.pick}: {PICKS[self.pick][1]}"))
        if not self.changes():
            out.print(Text("It is the default values: there is nothing to set."))
            return
        out.print(Text(f"It is {self.verdict.text}."), soft_wrap=True)
        out.print()
        for command in self.commands():
            out.print(Text(f"  {command}"), soft_wrap=True)
        out.print(Text("\nor in /etc/modprobe.d/cpuidle-lab.conf:\n"))
        out.print(Text(f"  {self.option()}"), soft_wrap=True)
