# SPDX-License-Identifier: GPL-2.0
"""The rows of the matrix: a kernel, how modules are built for it, what boots it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import LabResult, LabRun, built, images, run_lab
from cpuidle_lab.recording import columns
from cpuidle_lab.replay.fidelity import fidelity
from cpuidle_lab.replay.policies import recorded_policies
from tests.campaigns.matrix import builds, foreign
from tests.campaigns.matrix.table import ABSENT, FAIL, OK, STEPS, UNTRIED, WAYS, Outcome, StepResult

GUEST_SCRIPT = Path(__file__).parent / "guest.sh"

# Lines of the kernel's log that say nothing of our modules: its own about any module from outside
# its tree, and that the host did not run the guest for a while.
EXPECTED = (
    "loading out-of-tree module taints kernel",
    "module verification failed",
    "hrtimer: interrupt took",
)
POLICIES = {"teo_ng", "menu_ng", "wteo"}
ENOUGH_DECISIONS = 100

Said = Callable[[str], None]


class Row(ABC):
    """One kernel. `name` is what the table calls it."""

    name: str

    @abstractmethod
    def release(self) -> str:
        """Return the kernel's release string."""

    @abstractmethod
    def build(self) -> dict[str, StepResult]:
        """Build in all ways; return what became of them."""

    @abstractmethod
    def boot(self, output: Path, said: Said) -> LabResult:
        """Run the guest's script with the modules that were built."""


class Stock(Row):
    """A kernel of Debian for x86-64, in the lab, with the modules that DKMS built."""

    def __init__(self, series: str) -> None:
        self.name = f"x86-64 {series}"
        self.series = series

    def release(self) -> str:
        """Return the kernel's release string."""
        return images.kernel(self.series).version

    def build(self) -> dict[str, StepResult]:
        """Build by DKMS, then in the other ways."""
        ways = WAYS[1:]
        flavour = images.flavour_of(self.series)
        images.build_root(flavour, self.release())
        found = {"build": StepResult(OK)}
        try:
            images.modules(self.series)
        except UserError as error:
            found["build"] = StepResult(FAIL, error.message)
        headers = builds.Headers(self.release(), flavour.archive)
        folder = builds.build(self.series, ways, flavour.release, headers)
        return {**found, **builds.cells(folder, ways)}

    def boot(self, output: Path, said: Said) -> LabResult:
        """Boot the lab's machine."""
        return run_lab(LabRun(script=GUEST_SCRIPT.read_text(), kernel=self.series), output)


class Checked(Row):
    """A kernel of the project's own, which kills a module that has functions of wrong types."""

    def __init__(self, name: str, flavour: str) -> None:
        self.name = name
        self.flavour = flavour

    def release(self) -> str:
        """Return the kernel's release string."""
        return built.kernel(self.flavour).version

    def build(self) -> dict[str, StepResult]:
        """Build by the compiler of the kernel, clang."""
        absent = {
            way: StepResult(ABSENT, "built as the kernel was, by clang")
            for way in ("W=1", "sparse")
        }
        try:
            built.modules(self.flavour)
        except UserError as error:
            return {**absent, "build": StepResult(FAIL, error.message)}
        return {**absent, "build": StepResult(OK), "clang": StepResult(OK)}

    def boot(self, output: Path, said: Said) -> LabResult:
        """Boot the lab's machine in real time: the kernel is large."""
        script = GUEST_SCRIPT.read_text()
        return run_lab(LabRun(script=script, kernel=self.flavour, real_time=True), output)


class Foreign(Row):
    """A kernel of Debian for another architecture, with the idle states of its machine."""

    WAYS = ("build", "W=1", "sparse")

    def __init__(self, name: str, architecture: foreign.Architecture) -> None:
        self.name = name
        self.architecture = architecture

    def release(self) -> str:
        """Return the kernel's release string."""
        return foreign.kernel(self.architecture).version

    def build(self) -> dict[str, StepResult]:
        """Cross-compile in all ways but one."""
        absent = {"clang": StepResult(ABSENT, "cross-compiled by gcc only")}
        return {**absent, **builds.cells(self._built(), self.WAYS)}

    def boot(self, output: Path, said: Said) -> LabResult:
        """Boot QEMU's machine of the architecture."""
        script = GUEST_SCRIPT.read_text()
        return foreign.boot(self.architecture, self._built() / "build", script, output, said)

    def _built(self) -> Path:
        name = self.architecture.name
        headers = builds.Headers(self.release(), foreign.RELEASE, name)
        return builds.build(name, self.WAYS, foreign.RELEASE, headers)


ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        *(Stock(series) for series in ("6.1", "6.12-bookworm", "6.12", "7.2", "7.3")),
        Checked("x86-64 6.12 kCFI", "kcfi"),
        Foreign("POWER9 6.12", foreign.PPC64EL),
        Foreign("arm64 6.12", foreign.ARM64),
    )
}


def run(row: Row, output: Path, said: Said) -> Outcome:
    """Build for a row's kernel, boot it, judge what it left.

    Args:
        row: what to run.
        output: directory that receives the guest's results.
        said: called with what is being done.

    Raises:
        UserError: it could not be tried at all: Debian's archive cannot be used, or the like.
    """
    outcome = Outcome(row.name, row.release())
    outcome.cells.update(row.build())
    if outcome.cells["build"].word != OK:
        return outcome
    said("boots")
    try:
        result = row.boot(output, said)
    except UserError as error:
        outcome.cells["load"] = StepResult(FAIL, error.message)
        return outcome
    outcome.states = states(result.files)
    outcome.cells.update(steps(result))
    return outcome


def states(results: Path) -> str:
    """Return the idle driver and the names of its states."""
    found = results / "driver"
    if not found.exists():
        return "?"
    driver, *names = found.read_text().split()
    return f"`{driver}`: {', '.join(names)}"


def steps(result: LabResult) -> dict[str, StepResult]:
    """Return what became of the guest's steps."""
    reached = result.files / "steps"
    passed = reached.read_text().split("\n") if reached.exists() else []
    cells = {step: StepResult(OK if f"{step} ok" in passed else UNTRIED) for step in STEPS}
    failed = next((step for step in STEPS if cells[step].word != OK), None)
    if failed:
        cells[failed] = StepResult(FAIL, reason(result))
    if cells["capture"].word == OK:
        cells["capture"] = captured(result.files / "trace.dat")
    complaints = [line for line in result.complaints() if not any(e in line for e in EXPECTED)]
    if complaints and cells["unload"].word == OK:
        cells["unload"] = StepResult(FAIL, f"the kernel's log: {complaints[0]}")
    return cells


def reason(result: LabResult) -> str:
    """Return why the guest's script ended early."""
    try:
        result.check()
    except UserError as error:
        return error.message
    return "the guest's script ended before its end"


def captured(trace: Path) -> StepResult:
    """Return whether replay here makes every decision again that the guest recorded."""
    try:
        with columns.opened(trace) as recording:
            names = recorded_policies(recording)
            found = [fidelity(recording, name) for name in names]
    except UserError as error:
        return StepResult(FAIL, error.message)
    compared = sum(one.compared for one in found)
    identical = sum(one.identical for one in found)
    if missing := POLICIES - set(names):
        return StepResult(FAIL, f"no decision of {', '.join(sorted(missing))} was recorded")
    if identical != compared or compared < ENOUGH_DECISIONS:
        return StepResult(FAIL, f"replay makes {identical} of {compared} recorded decisions again")
    return StepResult(OK)
