# SPDX-License-Identifier: GPL-2.0
"""The corpus: lab traces of real programs, each from a recipe, each the same when made again.

One boot makes one trace. Several from one boot would save the seconds of booting, but then a
trace would depend on those before it, and one could not be made without the others.

A trace is built when it is missing or when its recipe has changed. A file that the manifest does
not know is left alone. Sources of the modules, and Debian's packages, change more often than that
and do not make a trace less true, and governors are compared on traces that stay: the manifest
says what each was made with, and a check what has changed since.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from cpuidle_lab.base.cache import BUILD, TOP, digest, locked
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import check, scratch, write_whole
from cpuidle_lab.lab import emulator, images, workloads
from cpuidle_lab.lab.run import GUEST, LabRun, run_lab
from cpuidle_lab.lab.session import TRACE, Session, sha256

DEFAULT_FOLDER = BUILD / "corpus"
MANIFEST = "corpus.json"
MANIFEST_VERSION = 1
TIME_LIMIT_S = 600

# Things that a trace was made with, besides its recipe; the words that messages use.
INGREDIENTS = {
    "kernel": "another kernel",
    "modules": "other sources of the modules",
    "programs": "other programs in the guest",
    "qemu": "another QEMU",
}


@dataclass(frozen=True)
class Recipe:
    """Recipe of a trace.

    Attributes:
        machine: state table of the emulated machine.
        governor: that decides while the trace is recorded; one of ours, which record every input.
        workload: a name of workloads.WORKLOADS.
        duration_s: seconds that the workload runs.
        seed: of the machine and the workload.
        cpus: number of CPUs.
        kernel: series of the kernel.
    """

    machine: str
    governor: str
    workload: str
    duration_s: int
    seed: int = 42
    cpus: int = 2
    kernel: str = "6.12"

    @property
    def name(self) -> str:
        """Name of the trace."""
        return f"{self.machine}-{self.workload}"

    @property
    def file(self) -> str:
        """Name of the trace's file."""
        return f"{self.name}.trace.dat"

    def script(self) -> str:
        """Return the script that the guest runs."""
        workload = workloads.find(self.workload)
        phase = workload.phase(self.governor, self.duration_s, self.seed)
        return Session(self.machine, [phase]).script()

    def files(self) -> dict[str, bytes]:
        """Return the files that the guest needs for it, by path."""
        return workloads.files([workloads.find(self.workload)])

    def hash(self) -> str:
        """Return a short hash of all that is stated here and of the commands behind it."""
        servers = workloads.SERVERS.read_bytes() if workloads.find(self.workload).setup else b""
        numbers = f"{self.kernel} {self.cpus} {self.seed}"
        return digest([numbers, self.script(), servers])


RECIPES = (
    Recipe("skx", "menu_ng", "idle", 120),
    Recipe("skx", "menu_ng", "cyclictest-1ms", 3),
    Recipe("skl", "teo_ng", "cyclictest-100us", 2),
    Recipe("power9", "menu_ng", "cyclictest-10us", 1),
    Recipe("icx", "menu_ng", "hackbench-pipe", 5),
    Recipe("power9", "teo_ng", "hackbench-socket", 5),
    Recipe("spr", "menu_ng", "stress-timer", 2),
    Recipe("skl", "menu_ng", "stress-switch", 1),
    Recipe("gnr", "teo_ng", "stress-mix", 3),
    Recipe("skx", "menu_ng", "stress-sleep", 1),
    Recipe("skx", "menu_ng", "pgbench-1", 3),
    Recipe("spr", "teo_ng", "pgbench-44", 3),
    Recipe("icx", "menu_ng", "fio-1", 1),
    Recipe("skl", "menu_ng", "nginx-wrk", 3),
    Recipe("gnr", "menu_ng", "redis", 3),
    Recipe("power9", "teo_ng", "redis", 3),
)

# Quick to make, and unlike each other: what the tests use.
SUBSET = ("skx-cyclictest-1ms", "power9-hackbench-socket", "spr-stress-timer")


def choose(names: Sequence[str]) -> list[Recipe]:
    """Return the recipes of some traces, in the order of the table.

    Raises:
        UserError: there is none of a name.
    """
    known = {recipe.name: recipe for recipe in RECIPES}
    for name in names:
        if name not in known:
            raise UserError(f"unknown trace '{name}'; there are {', '.join(known)}", USAGE)
    return [recipe for name, recipe in known.items() if name in names]


@dataclass(frozen=True)
class Entry:
    """Entry of the manifest on a trace.

    Attributes:
        recipe: the recipe's fields.
        recipe_hash: see Recipe.hash().
        command: the workload's shell command.
        sha256: of the trace.
        bytes: size of the trace.
        decisions: number of decisions in it.
        kernel: the guest's release string.
        modules: hash of the modules' sources.
        programs: hash of the guest's programs and their data.
        qemu: the version of QEMU.
        seconds: that making it took, the images not counted.
    """

    recipe: dict[str, str | int]
    recipe_hash: str
    command: str
    sha256: str
    bytes: int
    decisions: int
    kernel: str
    modules: str
    programs: str
    qemu: str
    seconds: float


class Corpus:
    """Traces in a directory, with a manifest that says how each was made."""

    def __init__(self, folder: Path = DEFAULT_FOLDER) -> None:
        """Read the manifest of a directory, which need not exist yet.

        Raises:
            UserError: the directory or its manifest is something else.
        """
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is not a directory", USAGE)
        self.folder = folder
        self.entries = read_manifest(folder / MANIFEST)

    def path(self, recipe: Recipe) -> Path:
        """Return where the trace of a recipe lies, or would."""
        return self.folder / recipe.file

    def lacks(self, recipe: Recipe) -> str:
        """Return why the trace of a recipe must be built, or "" where it is there."""
        entry = self.entries.get(recipe.name)
        if entry is None or not self.path(recipe).is_file():
            return "missing"
        if entry.recipe_hash != recipe.hash():
            return "its recipe has changed"
        if sha256(self.path(recipe)) != entry.sha256:
            return "its file has changed"
        return ""

    def _foreign(self, recipe: Recipe, path: Path) -> str:
        entry = self.entries.get(recipe.name)
        known = entry is not None and sha256(path) == entry.sha256
        return "" if known else f"is not the file that {MANIFEST} knows"

    def build(self, recipes: Iterable[Recipe]) -> Iterator[Recipe]:
        """Make those traces that are lacking; what is complete stays, also after a failure.

        Yields:
            Each recipe when its trace is there and in the manifest.

        Raises:
            UserError: an image cannot be made, a program fails in the guest, or a file is not ours.
        """
        for recipe in recipes:
            with self._scratch() as folder:
                self.entries = read_manifest(self.folder / MANIFEST)
                if self.lacks(recipe):
                    check(self.path(recipe), partial(self._foreign, recipe))
                    made, entry = make(recipe, folder)
                    # In this order: a file that the manifest does not know may be a user's.
                    self.path(recipe).unlink(missing_ok=True)
                    self.entries[recipe.name] = entry
                    self._write_manifest()
                    made.replace(self.path(recipe))
            yield recipe

    def check(self, recipe: Recipe) -> str:
        """Make a trace again and compare; the corpus is not changed.

        Returns:
            "identical", or in which way it is not so.

        Raises:
            UserError: it cannot be made.
        """
        if lack := self.lacks(recipe):
            return lack
        with self._scratch() as folder:
            _, again = make(recipe, folder)
        before = self.entries[recipe.name]
        if again.sha256 == before.sha256:
            return "identical"
        return "; ".join(["different", *changes(before, again)])

    def summary(self, recipe: Recipe) -> dict[str, object]:
        """Return what is known of a trace as one JSON object."""
        entry = self.entries.get(recipe.name)
        known = asdict(entry) if entry else {"recipe": asdict(recipe)}
        return {"name": recipe.name, "path": str(self.path(recipe)), **known}

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Give a directory to make a trace in, to one process at a time."""
        with locked(self.folder / ".lock"), scratch(self.folder) as folder:
            yield folder

    def _write_manifest(self) -> None:
        order = {recipe.name: number for number, recipe in enumerate(RECIPES)}
        names = sorted(self.entries, key=lambda name: (order.get(name, len(order)), name))
        traces = {name: asdict(self.entries[name]) for name in names}
        text = json.dumps({"version": MANIFEST_VERSION, "traces": traces}, indent=2)
        # The manifest was read, so it is one.
        write_whole(self.folder / MANIFEST, text + "\n", lambda _: "")


def read_manifest(path: Path) -> dict[str, Entry]:
    """Return a manifest's entries by the traces' names; none where there is no manifest.

    Raises:
        UserError: the file is something else.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
        if found["version"] != MANIFEST_VERSION:
            raise ValueError
        return {name: Entry(**entry) for name, entry in found["traces"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            f"{path} is not a manifest that this version wrote; remove it, and all is built anew"
        ) from None


def changes(before: Entry, now: Entry) -> list[str]:
    """Return what a trace is made with now that it was not made with before, in words."""
    return [
        f"made with {words}"
        for name, words in INGREDIENTS.items()
        if getattr(before, name) != getattr(now, name)
    ]


def make(recipe: Recipe, folder: Path) -> tuple[Path, Entry]:
    """Make a trace.

    Args:
        recipe: of the trace.
        folder: directory that receives it.

    Returns:
        The trace's file below `folder`, and its entry for the manifest.

    Raises:
        UserError: an image cannot be made, a program failed in the guest, or events were lost.
    """
    files = recipe.files()
    run = LabRun(
        recipe.script(),
        kernel=recipe.kernel,
        cpus=recipe.cpus,
        seed=recipe.seed,
        files=files,
        real_time=False,
        time_limit_s=TIME_LIMIT_S,
    )
    modules = modules_hash()
    result = run_lab(run, folder / "results", f"Recording {recipe.name}").check()
    made = result.files / TRACE
    from cpuidle_lab.recording import trace

    recorded = trace.load(made)
    if not recorded.integrity.complete:
        raise UserError(f"{recipe.name}: events were lost while it was recorded")
    entry = Entry(
        recipe={**asdict(recipe)},
        recipe_hash=recipe.hash(),
        command=workloads.find(recipe.workload).shell(recipe.duration_s, recipe.seed),
        sha256=sha256(made),
        bytes=made.stat().st_size,
        decisions=recorded.tables["decision"].height,
        kernel=result.kernel_version,
        modules=modules,
        programs=programs_hash(files),
        qemu=emulator.version(),
        seconds=round(result.wall_s, 1),
    )
    return made, entry


def modules_hash() -> str:
    """Return a short hash of the sources that the modules are built from."""
    paths = images.module_sources()
    return digest(
        part for path in paths for part in (str(path.relative_to(TOP)), path.read_bytes())
    )


def programs_hash(files: dict[str, bytes]) -> str:
    """Return a short hash of the guest's programs and scripts: every guest's, and further files."""
    parts = [part for path, data in sorted(files.items()) for part in (path, data)]
    scripts = [(GUEST / name).read_bytes() for name in ("init", "functions")]
    return digest([images.runtime().read_bytes(), *scripts, *parts])
