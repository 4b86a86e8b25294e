# SPDX-License-Identifier: GPL-2.0
"""Energy counters: their marks, wrap-around, which are added, and how the report shows them."""

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuidle_lab.cli import main
from cpuidle_lab.figures import analysis
from cpuidle_lab.figures.group import Group
from cpuidle_lab.host import energy
from cpuidle_lab.host.energy import EMULATED, MEASURED, PART, PLATFORM, TWIN, Reading, ZoneEnergy
from cpuidle_lab.recording import trace
from tests.unit.tracedat import Trace

RANGE = 262_143_328_850
EMULATED_RANGE = 2**63 - 1
PACKAGE = "intel-rapl:0"
SECOND = 10**9


def mark(
    energy_uj: int | str, zone: str = PACKAGE, name: str = "package-0", most: int | str = RANGE
) -> str:
    return f"energy zone={zone} energy_uj={energy_uj} max_energy_range_uj={most} name={name}"


def one(*texts: str) -> ZoneEnergy:
    """Return what a zone spent by readings a second apart."""
    (zone,) = energy.spent((n * SECOND, text) for n, text in enumerate(texts))
    return zone


# ---- Readings. ----


@given(
    st.from_regex(r"[a-z-]+(:[0-9a-f]+){1,3}", fullmatch=True).filter(lambda zone: len(zone) <= 64),
    st.integers(0, RANGE),
)
def test_a_mark_is_read_as_it_was_written(zone: str, uj: int) -> None:
    reading = Reading(zone, "a name", uj, RANGE)
    assert energy.parse(f"{reading.mark()}\n") == reading


@pytest.mark.parametrize(
    "text",
    [
        "",
        "phase end",
        "energy",
        mark(-5),
        mark("1e3"),
        mark("x"),
        mark("9" * 5000),
        mark("٣"),
        mark(""),
        mark(5, most=-1),
        mark(5, most=4),
        mark(5, zone=""),
        mark(5, zone="a b"),
        mark(5, name=""),
        mark(5) + "\n" + mark(6),
    ],
)
def test_nonsense_is_no_reading(text: str) -> None:
    assert energy.parse(text) is None


# ---- What a zone spent. ----


def test_energy_and_mean_power() -> None:
    zone = one(mark(1_000_000), mark(7_000_000), mark(13_000_000))
    assert (zone.energy_mj, zone.power_mw) == (12_000, 6_000)


@given(st.integers(0, RANGE), st.integers(0, RANGE - 1))
def test_one_wrap_is_undone(start: int, rise: int) -> None:
    end = start + rise if start + rise <= RANGE else start + rise - RANGE
    found = one(mark(start), mark(end)).energy_mj
    assert found == pytest.approx(rise / 1e3, abs=1e-6)


def test_a_lone_reading_says_nothing() -> None:
    assert one(mark(5)) == ZoneEnergy(PACKAGE, "package-0", MEASURED, None, None)
    assert one(mark(5), mark(-7)).energy_mj is None


def test_no_time_no_power() -> None:
    (zone,) = energy.spent([(7, mark(5)), (7, mark(9))])
    assert (zone.energy_mj, zone.power_mw) == (0.004, None)


def test_an_emulator_that_was_loaded_anew_did_not_wrap() -> None:
    texts = [mark(uj, "cpuidle-emul:0", most=EMULATED_RANGE) for uj in (900, 5)]
    assert one(*texts).energy_mj is None


def test_a_range_that_changes_is_not_trusted() -> None:
    assert one(mark(900), mark(5, most=1000)).energy_mj is None


# ---- What is added. ----

SERVER = {
    (PACKAGE, "package-0"): (10_000, MEASURED),
    ("intel-rapl:0:0", "dram"): (2_000, PART),
    ("intel-rapl:1", "package-1"): (4_000, MEASURED),
    ("intel-rapl:2", "psys"): (90_000, PLATFORM),
    ("intel-rapl:3", "psys-1"): (90_000, PLATFORM),
    ("intel-rapl-mmio:0", "package-0"): (10_000, TWIN),
    ("cpuidle-emul:0", "package-0"): (500, EMULATED),
}


def server_marks() -> list[tuple[int, str]]:
    """Return readings of every zone of SERVER, two seconds apart."""
    return [
        (ts, mark(energy_uj, zone, name))
        for ts in (0, 2 * SECOND)
        for (zone, name), (rise, _) in SERVER.items()
        for energy_uj in (7 + (rise if ts else 0),)
    ]


def test_nothing_is_added_twice() -> None:
    zones = energy.spent(server_marks())
    assert {(zone.zone, zone.name): zone.role for zone in zones} == {
        key: role for key, (_, role) in SERVER.items()
    }
    assert energy.totals(zones) == {
        "measured_mj": 14,
        "measured_mw": 7,
        "emulated_mj": 0.5,
        "emulated_mw": 0.25,
    }


def test_mmio_alone_is_a_package() -> None:
    assert one(mark(1, "intel-rapl-mmio:0"), mark(3, "intel-rapl-mmio:0")).role == MEASURED


def test_a_sum_without_one_of_its_parts_is_unknown() -> None:
    marks = [item for item in server_marks() if item[0] == 0 or "package-1" not in item[1]]
    values = energy.totals(energy.spent(marks))
    assert values["measured_mj"] is None and values["measured_mw"] is None
    assert values["emulated_mj"] == 0.5


def test_the_sources_are_named() -> None:
    first, second, *others = energy.sources(energy.spent(server_marks()))
    assert first == "emulated energy is that of cpuidle-emul:0 (package-0)"
    assert second == (
        "measured energy is that of intel-rapl:0 (package-0), intel-rapl:1 (package-1)"
    )
    assert "not added, part of another zone: intel-rapl:0:0 (dram)" in others
    assert len(others) == 3


# ---- The report. ----


@dataclass
class Recording:
    """A trace of phases with idle periods and any marks."""

    trace: Trace = field(default_factory=Trace)
    now: int = SECOND

    def marks(self, *texts: str) -> None:
        """Write lines to trace_marker."""
        for text in texts:
            self.now += 1_000
            self.trace.mark(0, self.now, text)

    def idle(self) -> None:
        """Be idle for a second."""
        self.trace.add(0, self.now + 1_000, "cpu_idle", state=1, cpu_id=0)
        self.now += SECOND
        self.trace.add(0, self.now, "cpu_idle", state=trace.IDLE_EXIT, cpu_id=0)

    def phase(self, governor: str, begin: list[str], end: list[str], last: str) -> None:
        """Add a phase of the workload "idle"."""
        self.marks(f"phase governor={governor} workload=idle", *begin)
        self.idle()
        self.marks(*end, *([last] if last else []))

    def groups(self, path: Path) -> list[Group]:
        """Return the figures."""
        return analysis.analyse(trace.load(self.trace.write(path)))


def measured(groups: list[Group]) -> list[float | None]:
    return [group.values["measured_mj"] for group in groups]


def test_each_phase_has_its_own_energy(tmp_path: Path) -> None:
    recording = Recording()
    recording.phase("menu", [mark(1_000)], [mark(9_000)], "phase end")
    recording.marks(mark(50_000))  # between phases: of no governor
    recording.phase("teo", [mark(RANGE - 1_000)], [mark(2_000)], "phase end")
    recording.phase("ladder", [], [], "phase end")
    groups = recording.groups(tmp_path / "t.dat")
    assert measured(groups) == [8, 3, None]
    assert groups[0].values["measured_mw"] == pytest.approx(8, rel=1e-4)
    assert groups[2].zones == []


# The next phase's first reading is not the last one of a phase whose own is missing.
@pytest.mark.parametrize("last", ["phase end", ""])
def test_a_missing_end_is_unknown(tmp_path: Path, last: str) -> None:
    recording = Recording()
    recording.phase("menu", [mark(1_000)], [], last)
    recording.phase("teo", [mark(2_000)], [mark(5_000)], "")
    assert measured(recording.groups(tmp_path / "t.dat")) == [None, 3]


def test_without_phases_nothing_is_attributed(tmp_path: Path) -> None:
    recording = Recording()
    recording.marks(mark(1_000))
    recording.idle()
    recording.marks(mark(2_000))
    assert measured(recording.groups(tmp_path / "t.dat")) == [None]


def report(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return the report in the terminal and as HTML: its body, without definitions and scripts."""
    target = path.with_suffix(".html")
    assert main(["report", str(path), "--output", str(target)]) == 0
    html = target.read_text(encoding="utf-8").split("</style>")[1].split("</footer>")[0]
    return capsys.readouterr().out, re.sub("<dl>.*</dl>", "", html, flags=re.DOTALL)


def test_the_report_shows_every_zone_and_adds_the_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = Recording()
    texts = [text for _, text in server_marks()]
    recording.phase("menu", texts[: len(SERVER)], texts[len(SERVER) :], "phase end")
    path = recording.trace.write(tmp_path / "t.dat")
    shown, html = report(path, capsys)
    for text in (shown, html):
        for zone, _ in SERVER:
            assert zone in text
    assert "Measured energy<br>" in html and ">14.0</td>" in html
    assert "Emulated energy<br>" in html and ">0.5</td>" in html
    assert "intel-rapl:2<br>psys<br>" in html and "whole platform" in html
    assert "Measured energy was read from counters; all other energy is modelled." in html

    assert main(["report", str(path), "--json", "--csv", str(tmp_path / "csv")]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["metrics"]["measured_mj"] == 14
    with (tmp_path / "csv" / "zones.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["zone"]: float(row["energy_mj"]) for row in rows} == {
        zone: rise / 1e3 for (zone, _), (rise, _) in SERVER.items()
    }
    assert {zone["zone"] for zone in run["zones"]} == {row["zone"] for row in rows}


def test_the_emulated_machine_is_never_called_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = Recording()
    begin, end = (mark(uj, "cpuidle-emul:0", most=EMULATED_RANGE) for uj in (0, 600))
    recording.phase("menu", [begin], [end], "phase end")
    shown, html = report(recording.trace.write(tmp_path / "t.dat"), capsys)
    assert "emulated energy is that of cpuidle-emul:0" in shown
    assert "Emulated energy" in html
    footer = "All energy is modelled, not measured."
    assert footer in html
    for text in (shown, html):
        assert "measured" not in text.replace(footer, "").lower()


def test_a_trace_without_readings_reads_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = Recording()
    recording.phase("menu", [], [], "phase end")
    shown, html = report(recording.trace.write(tmp_path / "t.dat"), capsys)
    footer = "All energy is modelled, not measured."
    assert footer in html
    for word in ("measured", "emulated", "energy counters"):
        assert word not in (shown + html.replace(footer, "")).lower()
