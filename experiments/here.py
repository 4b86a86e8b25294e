# SPDX-License-Identifier: GPL-2.0
"""Experiments on this machine: the programs of an experiment under each governor, in turns.

`cpuidle-lab ab` does the work, so the machine is left as it was, also after a failure or a signal.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Protocol, runtime_checkable

from cpuidle_lab.ab import circumstances, record, session
from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.base.version import __version__
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.host import energy
from cpuidle_lab.host.machine import Host
from cpuidle_lab.lab import programs
from experiments.experiment import Experiment, Findings, Request, Row

LOGS = TOP / "build" / "experiments" / "here"

# Between the switch to a governor and its run.
_SETTLE_S = 0.5

NO_PROGRAMS = "it has no programs for this machine"


@dataclass(frozen=True)
class Load:
    """A program of an experiment.

    Attributes:
        name: of the file of its runs.
        what: for people, with the figure that it prints.
        words: the command; the first word is a program of the system.
        metric: regular expression with one group, the figure.
        unit: of the figure.
        scale: the figure in its unit, for each that is printed.
        better: which figures are: higher or lower.
        made: programs of the project that the command has, by their word in it.
    """

    name: str
    what: str
    words: tuple[str, ...]
    metric: str
    unit: str
    scale: float = 1.0
    better: str = "lower"
    made: Mapping[str, programs.Program] = field(default_factory=dict)

    def command(self) -> tuple[str, ...]:
        """Return the command, with the project's programs compiled.

        Raises:
            UserError: there is no compiler.
        """
        paths = {word: str(programs.compiled(one)) for word, one in self.made.items()}
        return tuple(paths.get(word, word) for word in self.words)


@runtime_checkable
class Portable(Experiment, Protocol):
    """An experiment that runs on this machine, too."""

    @property
    def governors(self) -> Sequence[str]:
        """Those that it compares."""

    def programs_here(self, scale: str) -> Sequence[Load]:
        """Return the programs, at a scale."""


def governors(machine: Host, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return those of an experiment's governors that this machine has."""
    return tuple(name for name in wanted if name in machine.governors())


def refusals(experiment: Experiment, request: Request, machine: Host) -> list[str]:
    """Return why an experiment cannot be run on this machine, as sentences."""
    if not isinstance(experiment, Portable):
        return [NO_PROGRAMS]
    loads = experiment.programs_here(request.scale)
    words = dict.fromkeys(load.words[0] for load in loads if load.words[0] not in load.made)
    found = [f"it needs {word}" for word in words if not shutil.which(word)]
    names = governors(machine, experiment.governors)
    if machine.driver() and len(names) < 2:
        offered = ", ".join(machine.governors()) or "none"
        found.append(f"it compares governors, and of its own this machine has {len(names)} "
                     f"(there are: {offered})")  # fmt: skip
    try:
        session.check(machine, _plan(names, request, ("true",), "", "lower"))
    except UserError as error:
        found.append(error.message)
    return found


def _plan(
    names: tuple[str, ...], request: Request, command: tuple[str, ...], metric: str, better: str,
    frequency: str = "",
) -> session.Plan:  # fmt: skip
    return session.Plan(names, request.seeds, (), 1, _SETTLE_S, None, command, metric, better,
                        frequency)  # fmt: skip


def _power_w(run: record.Run) -> float | None:
    """Return the mean power that the energy counters tell of a run, W."""
    spent = energy.totals(run.zones)
    found = spent["measured_mj"] or spent["emulated_mj"]
    return found / 1000 / run.wall_s if found else None


def measure(experiment: Portable, request: Request, machine: Host, meter: Meter) -> Findings:
    """Run all programs under all governors, once in each of `seeds` rounds.

    Where the machine has frequency governors, under each of these.

    Args:
        experiment: whose programs are run.
        request: scale and rounds.
        machine: this one.
        meter: shows progress.

    Raises:
        UserError: a program failed.
        InterruptedSession: a signal came; the machine is as it was.
    """
    names = governors(machine, experiment.governors)
    frequencies = session.frequency_governors(machine)
    plan = list(product(experiment.programs_here(request.scale), frequencies))
    LOGS.mkdir(parents=True, exist_ok=True)
    result = Findings()
    rows: list[list[Cell]] = []
    with meter(f"Running {experiment.name}", len(plan) * len(names) * request.seeds) as done:
        for load, frequency in plan:
            path = LOGS / f"{experiment.name}-{load.name}{frequency and f'-{frequency}'}.jsonl"
            chosen = _plan(names, request, load.command(), load.metric, load.better, frequency)
            told = _runs(machine, chosen, path, lambda: done(1))
            for name in names:
                runs = [run for run in told if run.governor == name]
                label = f"{name}, {frequency}" if frequency else name
                figures = [load.scale * run.metric for run in runs if run.metric is not None]
                result.rows.append(Row(f"{label}: {load.what}", ours=figures, unit=load.unit))
                powers = [watts for run in runs if (watts := _power_w(run)) is not None]
                rows.append([load.what, label, median(figures), min(figures), max(figures),
                             load.unit, median(powers) if powers else None])  # fmt: skip
    heads = ("program", "governor", "median", "least", "most", "unit", "power, W")
    note = "Power: of the energy counters that the kernel shows; a dash: it shows none."
    table = Table("Programs on this machine", heads, rows, 3, note)
    result.sections.append(Section("here", "On this machine", tables=[table]))
    result.same = "The programs are those of the lab; the first column has their options."
    result.differs = _described(circumstances.look(machine), machine)
    result.meaning = (
        "These are figures of one machine. `cpuidle-lab ab` says what differs for sure."
    )
    result.sources = {"kernel": machine.kernel(), "version": __version__}
    return result


def _runs(
    machine: Host, plan: session.Plan, path: Path, done: Callable[[], None]
) -> Sequence[record.Run]:
    """Carry out a plan and return its runs, in the order of the rounds."""

    class Counted(record.Log):
        def add(self, run: record.Run) -> None:
            super().add(run)
            done()

    session.measure(machine, plan, list(plan.command), Counted(path), lambda _: None)
    return record.load(path).runs


def _described(here: circumstances.Circumstances, machine: Host) -> str:
    states = ", ".join(here.idle_states)
    return (
        f"This is no machine of the lab: {here.cpu or 'a CPU without a name'}, CPUs {here.cpus}, "
        f"kernel {machine.kernel()}, driver {here.idle_driver}, idle states {states}."
    )
