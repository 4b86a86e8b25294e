# SPDX-License-Identifier: GPL-2.0
"""Differences of dumps: matching, figures, warnings, forms of output, and damage."""

import csv
import json
import os
import random
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.dump import mail, pictures, report
from cpuidle_lab.dump.figures import BEYOND, UNKNOWN, WITHIN, Value, verdict
from cpuidle_lab.recording.dumps import own
from cpuidle_lab.recording.dumps.model import KERNEL, UPTIME
from tests.unit import command, dump_forms
from tests.unit.dump_forms import BIG, FORMS, LITTLE, NAMED, Machine, machine, write

TOP = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CPUIDLE_LAB_SHARED", TOP.parent / "shared")) / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")


def diff(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Return the JSON of a comparison."""
    assert main(["diff", "--json", *map(str, arguments)]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def figure(told: dict[str, Any], state: str, key: str, kind: str = "all", group: str = "",
           side: int = 0) -> float | None:  # fmt: skip
    """Return a figure of a side."""
    (row,) = [
        row for row in told["rows"]
        if (row["kind"], row["group"], row["state"]) == (kind, group, state)
    ]  # fmt: skip
    value: float | None = [*row["sides"].values()][side][key]["mean"]
    return value


def warnings(told: dict[str, Any], side: int = 0) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for warn in told["sides"][side]["warnings"]:
        found.setdefault(warn["kind"], []).append(warn["text"])
    return found


def pair(folder: Path, before: str | bytes, after: str | bytes) -> list[Path]:
    return [write(folder, "x.before.txt", before), write(folder, "x.after.txt", after)]


# ---- Matching ----


@pytest.mark.parametrize("before", FORMS)
@pytest.mark.parametrize("after", ["grep", "bare"])
def test_forms_may_be_mixed(
    before: str, after: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = machine(1, range(12)), machine(2, range(12))
    paths = pair(tmp_path, FORMS[before](one), FORMS[after](two))
    told = diff(capsys, *paths)
    entries = sum(int(s["usage"]) for states in one.values() for s in states)
    after_entries = sum(int(s["usage"]) for states in two.values() for s in states)
    assert figure(told, "all", "idles") == after_entries - entries
    assert figure(told, "all", "time") == 100
    if before in NAMED and after in NAMED:
        assert figure(told, "C6", "idles", "cpu", "10") == 1000 * (50 % 7 + 3)


def test_dumps_in_the_wrong_order_are_swapped_and_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in (dump_forms.grep, dump_forms.bare):
        paths = pair(tmp_path, form(machine(2)), form(machine(1)))
        told = diff(capsys, *paths)
        assert any("wrong order" in text for text in warnings(told)["dump"])
        right = diff(capsys, *paths[::-1])
        assert figure(told, "all", "idles") == figure(right, "all", "idles")


@pytest.mark.parametrize("place", [0, 1])
def test_a_note_on_one_of_two_dumps_names_it(
    place: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [dump_forms.grep(machine(1)), dump_forms.grep(machine(2))]
    texts[place] = texts[place][:-9]
    paths = pair(tmp_path, *texts)
    (said,) = [text for text in warnings(diff(capsys, *paths))["dump"] if "may be cut" in text]
    assert said.startswith(f"{paths[place].name}: its last line has no end")
    both = pair(tmp_path, *(text[:-9] for text in texts))
    assert any(text.startswith("its last line") for text in warnings(diff(capsys, *both))["dump"])


def test_a_cpu_that_is_missing_or_fell_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    after = machine(2, range(1, 4))
    after[2][1]["usage"] = "3"
    told = diff(capsys, *pair(tmp_path, dump_forms.grep(machine(1)), dump_forms.grep(after)))
    assert told["sides"][0]["runs"][0]["cpus"] == [1, 3]
    said = " ".join(warnings(told)["dump"])
    assert "CPU 0 is left out: one of the dumps lacks it" in said
    assert "CPU 2 is left out: counters went backwards or wrapped" in said


def without(files: Machine, cpu: int) -> Machine:
    return {number: states for number, states in files.items() if number != cpu}


def test_a_missing_cpu_without_number_is_found_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = machine(1)
    slowly = {cpu: [{**state, "usage": str(int(state["usage"]) + 1)} for state in states]
              for cpu, states in before.items()}  # fmt: skip
    paths = pair(tmp_path, dump_forms.bare(before), dump_forms.bare(without(slowly, 1)))
    told = diff(capsys, *paths)
    assert figure(told, "all", "idles") == 3 * 4
    assert any("1 CPUs of one dump are left out" in text for text in warnings(told)["dump"])
    paths = pair(tmp_path, dump_forms.bare(before), dump_forms.bare(without(machine(9), 1)))
    assert main(["diff", *map(str, paths)]) == 1
    assert "match in several ways" in command.error(capsys)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (dump_forms.grep(machine(1)),
         dump_forms.grep(machine(2, tables=(LITTLE,))), "different machines"),
        (dump_forms.bare(machine(1)),
         dump_forms.bare(machine(2, tables=(LITTLE,))), "different machines"),
        (own.text_of([dump_forms.moment(machine(1), {KERNEL: "6.6"})]),
         own.text_of([dump_forms.moment(machine(2), {KERNEL: "6.12"})]), "of two kernels"),
    ],
)  # fmt: skip
def test_dumps_of_different_machines_are_refused(
    before: str, after: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *map(str, pair(tmp_path, before, after))]) == 1
    assert words in command.error(capsys)


def test_one_dump_alone_needs_since_boot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "x", dump_forms.grep(machine(1)))
    assert main(["diff", str(path)]) == 1
    assert "has no partner" in command.error(capsys)
    told = diff(capsys, "--since-boot", path)
    assert figure(told, "all", "idles") == sum(
        int(state["usage"]) for states in machine(1).values() for state in states
    )


def test_200_cpus_of_two_packages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for turn in (1, 2):
        text = dump_forms.grep(machine(turn, range(200)))
        for cpu in range(200):
            text += f"{dump_forms.SYSFS}/cpu{cpu}/topology/physical_package_id:{cpu // 100}\n"
        texts.append(text)
    told = diff(capsys, *pair(tmp_path, *texts))
    halves = [figure(told, "all", "idles", "package", name) or 0 for name in "01"]
    assert sum(halves) == figure(told, "all", "idles") and min(halves) > 0


# ---- Figures ----


def test_figures_are_those_of_the_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def moment(entries: int, uptime: str) -> str:
        states = [dump_forms.state("POLL", 0, 0, 0, usage=1, time=5),
                  dump_forms.state("C6", 133, 600, 0, usage=entries, time=entries * 500,
                                   above=entries // 4, below=0)]  # fmt: skip
        return own.text_of([dump_forms.moment({0: states}, {UPTIME: f"{uptime} 1.0"})])

    told = diff(capsys, *pair(tmp_path, moment(0, "10.0"), moment(1000, "20.0")))
    keys = ("idles", "time_s", "mean_us", "aboves", "ratio", "per_s", "paid_s", "time")
    assert [figure(told, "C6", key) for key in keys] == [1000, 0.5, 500, 250, 25, 100, 0.133, 100]
    assert figure(told, "POLL", "mean_us") is None
    assert warnings(told)["never_entered"] == ["POLL is never entered"]


def test_a_length_that_the_idle_time_contradicts_is_not_believed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [own.text_of([dump_forms.moment(machine(turn), {UPTIME: f"{turn}.0 0"})])
             for turn in (1, 2)]  # fmt: skip
    told = diff(capsys, *pair(tmp_path, *texts))
    assert figure(told, "all", "per_s") is None
    assert any("is not believed" in text for text in warnings(told)["dump"])


def test_misses_beyond_the_entries_leave_no_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {0: [dump_forms.state("WFI", 1, 1, 10)]}
    after = {0: [dump_forms.state("WFI", 1, 1, 12, above=50)]}
    told = diff(capsys, *pair(tmp_path, dump_forms.grep(before), dump_forms.grep(after)))
    assert figure(told, "WFI", "ratio") is None
    assert figure(told, "WFI", "idles") == 2


WARNED = {
    "rejected": ({"rejected": 10**6, "usage": 0, "time": 0}, "C6 is always rejected (1000000"),
    "never_entered": ({"usage": 0, "time": 0, "above": 0}, "C6 is never entered"),
    "disabled": ({"disable": 1}, "C6 is disabled"),
    "exit_above_target": ({"latency": 700}, "an exit latency of 700 us above its target"),
    "short_stays": ({"usage": 10**6, "time": 10**7}, "mean stay of 10.0 us is far below"),
    "same_target": ({"residency": 20}, "C1E and C6 have one target residency, 20 us"),
}


@pytest.mark.parametrize("kind", WARNED)
def test_a_state_that_misleads_is_named_first(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, words = WARNED[kind]
    # Counters of the deepest state begin at 0; its table and flags are the same in both dumps.
    fixed = {key: value for key, value in files.items() if key in ("disable", "latency",
                                                                   "residency")}  # fmt: skip
    dumps = []
    for turn in (1, 2):
        found = machine(turn, range(1))
        zero = dict.fromkeys(("usage", "time", "above", "below"), "0") if turn == 1 else {}
        found[0][3] |= zero | {key: str(value) for key, value in fixed.items()}
        if turn == 2:
            found[0][3] |= {key: str(value) for key, value in files.items()}
        dumps.append(dump_forms.grep(found))
    paths = pair(tmp_path, *dumps)
    told = diff(capsys, *paths)
    assert [text for text in warnings(told)[kind] if words in text]
    plain = pair(tmp_path, dump_forms.grep(machine(1)), dump_forms.grep(machine(2)))
    assert kind not in warnings(diff(capsys, *plain))


def uptimed(files: Machine, seconds: int) -> str:
    return own.text_of([dump_forms.moment(files, {UPTIME: f"{seconds}.00 1.00"})])


SAME = "the two dumps are the same: nothing happened between them"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (dump_forms.grep(machine(1)), dump_forms.grep(machine(1)), SAME),
        (dump_forms.bare(machine(1)), dump_forms.grep(machine(1)), SAME),
        (uptimed(machine(1), 100), uptimed(machine(1), 100), SAME),
        (uptimed(machine(1), 100), uptimed(machine(1), 130),
         "no CPU entered an idle state in the 30.0 s between the two dumps"),
    ],
    ids=["grep", "forms", "dump", "later"],
)  # fmt: skip
def test_a_dump_and_itself_are_the_same_and_no_state_is_warned_of(
    before: str, after: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = warnings(diff(capsys, *pair(tmp_path, before, after)))
    assert found["nothing"] == [words] and found.keys() <= {"nothing", "dump"}


def test_rejections_alone_are_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = machine(1)
    later[0][1]["rejected"] = str(int(later[0][1]["rejected"]) + 5)
    told = warnings(diff(capsys, *pair(tmp_path, *map(dump_forms.grep, (machine(1), later)))))
    assert told["nothing"] == ["no CPU entered an idle state"]
    assert "is always rejected (5 times)" in told["rejected"][0]
    assert "never_entered" not in told


def test_cpus_that_differ_are_told_by_their_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps = [dump_forms.grep(machine(turn, tables=(LITTLE, BIG))) for turn in (1, 2)]
    told = diff(capsys, *pair(tmp_path, *dumps))
    assert warnings(told)["tables_differ"] == [
        "the CPUs have 2 tables of idle states: CPU 0,2; CPU 1,3"
    ]
    assert {row["group"] for row in told["rows"] if row["kind"] == "type"} == {"CPU 0,2", "CPU 1,3"}


# ---- Sides ----


def runs(folder: Path, name: str, rates: list[float]) -> Path:
    moments, turn = [], 1.0
    for run, rate in enumerate(rates, start=1):
        moments.append(dump_forms.moment(machine(int(100 * turn)), {}, f"before {run}"))
        turn += rate
        moments.append(dump_forms.moment(machine(int(100 * turn)), {}, f"after {run}"))
    return write(folder, name, own.text_of(moments))


def test_differences_of_several_runs_have_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = runs(tmp_path, "good.txt", [1.0, 1.1, 0.9, 1.05])
    same = runs(tmp_path, "same.txt", [0.95, 1.08, 1.0, 1.04])
    bad = runs(tmp_path, "bad.txt", [2.0, 2.1, 1.9, 2.05])
    told = diff(capsys, good, "--against", same, "--against", bad)
    (row,) = [row for row in told["rows"] if (row["kind"], row["state"]) == ("all", "all")]
    verdicts = {side: row["differences"][side]["idles"]["verdict"] for side in ("same", "bad")}
    assert verdicts == {"same": WITHIN, "bad": BEYOND}
    assert row["differences"]["bad"]["idles"]["meaning"] == "more wake-ups"
    assert row["sides"]["good"]["idles"]["spread"] > 0
    assert diff(capsys, good, same, bad)["rows"] == told["rows"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0], [2.0], UNKNOWN),
        ([80, 170, 110, 95, 140], [85, 160, 120, 100, 135], WITHIN),
        ([1, 1], [1, 1], WITHIN),
        ([1, 1], [2, 2], BEYOND),
        ([10, 11, 12], [20, 21, 22], BEYOND),
        ([10, 20], [22, 35], WITHIN),
    ],
)
def test_a_difference_is_judged_by_the_spread(
    one: list[float], other: list[float], expected: str
) -> None:
    assert verdict(Value(tuple(one)), Value(tuple(other))) == expected


def test_identical_code_rarely_differs() -> None:
    chance = random.Random(1)

    def drawn() -> Value:
        return Value(tuple(chance.gauss(120, 30) for _ in range(5)))

    beyond = sum(verdict(drawn(), drawn()) == BEYOND for _ in range(2000))
    assert 40 < beyond < 130


def test_sides_with_other_states_have_no_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = [write(tmp_path, f"a{turn}", dump_forms.grep(machine(turn))) for turn in (1, 2)]
    other = [write(tmp_path, f"b{turn}", dump_forms.grep(machine(turn, tables=(LITTLE,))))
             for turn in (1, 2)]  # fmt: skip
    told = diff(capsys, *one, *other)
    assert not told["comparable"]
    assert all(not row["differences"] for row in told["rows"])
    assert "no differences" in warnings(told)["sides_differ"][0]


# ---- turbostat ----

TURBOSTAT = """turbostat version 2025.06.08
CPUID(0): GenuineIntel
{usec}Core\tCPU\tBusy%\tIRQ\tPOLL\tC1\tC6\tPOLL%\tC1%\tC6%\tC1+\tC1-\tCPU%c6\tPkg%pc2
{sum}-\t-\t5.00\t99\t4\t200\t1200\t0.00\t10.00\t80.00\t5\t7\t70.00\t1.00
{one}0\t0\t5.00\t50\t2\t100\t700\t0.00\t10.00\t80.00\t4\t3\t70.00\t1.00
{two}1\t1\t5.00\t49\t2\t100\t500\t0.00\t10.00\t80.00\t1\t4\t70.00
"""


@pytest.mark.parametrize("is_timed", [True, False])
def test_turbostat_tells_entries_and_shares(
    is_timed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usec = "5000000\t" if is_timed else ""
    text = TURBOSTAT.format(usec="usec\t" if is_timed else "", sum=usec, one=usec, two=usec)
    text = text.replace("70.00\n", "70.00\t1.00\n")
    told = diff(capsys, write(tmp_path, "t.txt", text * 2))
    assert figure(told, "C6", "idles") == 2400
    assert figure(told, "C6", "time") == pytest.approx(100 * 80 / 90)
    mean = figure(told, "C6", "mean_us")
    assert mean == (pytest.approx(2 * 2 * 4e6 / 2400) if is_timed else None)
    assert (figure(told, "C1", "belows"), figure(told, "C6", "belows")) == (10, None)
    assert main(["machines", str(tmp_path / "t.txt")]) == 1
    assert "tells no latencies" in command.error(capsys)


# ---- Outputs ----


def test_pictures_have_a_mark_for_each_figure_that_is_told(tmp_path: Path) -> None:
    paths = [
        write(tmp_path, f"{name}{turn}", dump_forms.grep(machine(turn * scale, range(4))))
        for name, scale in (("a", 1), ("b", 3))
        for turn in (1, 2)
    ]
    found = report.build(paths, [], False)
    rows = [row for row in found.rows if row.kind == "all" and row.state != "all"]
    plots = {plot.name: plot for plot in pictures.pictures(found, ("all", "cpu"))}
    assert set(plots) == {"time", "entries", "aboves", "belows"}
    assert plots["time"].categories == [row.state for row in rows]
    for at, line in enumerate(plots["time"].lines):
        assert [value for value, _ in line.points] == [row.values["time"][at].mean for row in rows]
        assert [round(place) for _, place in line.points] == list(range(len(rows)))
    entered = [row for row in rows if row.values["idles"][1].mean]
    assert [value for value, _ in plots["aboves"].lines[1].points] == [
        100 * (row.values["aboves"][1].mean or 0) / (row.values["idles"][1].mean or 1)
        for row in entered
    ]
    gone = replace(rows[0], values=rows[0].values | {"time": (Value(), Value((50.0,)))})
    lines = next(pictures.pictures(replace(found, rows=(gone,)), ("all",))).lines
    assert [len(line.points) for line in lines] == [0, 1]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kinds", [("all",), ("all", "cpu")])
def test_a_mail_is_ascii_of_72_columns(tmp_path: Path, count: int, kinds: tuple[str, ...]) -> None:
    paths = []
    for side in range(count):
        for turn in (1, 2):
            files = machine(turn * 10**9 * (side + 1), range(12), tables=(LITTLE, BIG))
            paths.append(write(tmp_path, f"{'x' * 90}{side}.é.{turn}", dump_forms.grep(files)))
    text = mail.render(report.build(paths, [], False), kinds)
    assert max(map(len, text.splitlines())) <= 72
    assert text.isascii()
    assert re.search("idles +idle_miss +ratio %", text)


def test_each_output_has_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for name in ("<b>a", "b") for path in (
        write(tmp_path, f"{name}.before", dump_forms.grep(machine(1))),
        write(tmp_path, f"{name}.after", dump_forms.grep(machine(2))),
    )]  # fmt: skip
    page, folder = tmp_path / "page.html", tmp_path / "csv"
    assert main(["diff", *paths, "-o", str(page), "--csv", str(folder), "--by", "cpu"]) == 0
    shown = capsys.readouterr().out
    told = diff(capsys, *paths)
    idles = int(figure(told, "C6", "idles") or 0)
    html = page.read_text()
    assert "<b>a" not in html and "&lt;b&gt;a" in html
    assert str(idles) in shown and str(idles) in html and "CPU 3, by idle state" in html
    assert html.count("<svg ") == len(pictures.DRAWN)
    with (folder / "figures.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["figure"] == "idles"]
    assert [float(r["mean"]) for r in rows if (r["kind"], r["state"]) == ("all", "C6")] == [
        idles
    ] * 2
    assert main(["diff", *paths, "-o", paths[0]]) == 2
    assert main(["diff", *paths, "--names", "one"]) == 2


# ---- Damage ----


DAMAGE = (b"", b"0", b"-1", b"\n", b"9" * 23, b"\x00\xff", b" ", b"x", b"\xd9\xa3")


def _sound(told: dict[str, Any]) -> None:
    for row in told["rows"]:
        for side in row["sides"].values():
            for key, value in side.items():
                for run in value["runs"]:
                    assert run >= 0, (row, key)
                    assert run <= 100 or told["figures"][key]["unit"] != "%", (row, key)


@settings(max_examples=60)
@given(st.data())
def test_damaged_dumps_give_figures_that_can_be_or_a_sentence(data: st.DataObject) -> None:
    from cpuidle_lab.dump import export

    form = data.draw(st.sampled_from([*FORMS, "cpupower"]))
    make = dump_forms.cpupower if form == "cpupower" else FORMS[form]
    folder = Path(tempfile.gettempdir())
    texts = [bytearray(make(machine(turn, range(2))).encode()) for turn in (1, 2)]
    for text in texts:
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(text)))
            size = data.draw(st.integers(0, 200))
            what = data.draw(st.sampled_from([*DAMAGE, bytes(text[:size])]))
            text[at : at + size] = what
    paths = [folder / f"cpuidle-lab-{os.getpid()}-{n}" for n in range(2)]
    try:
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(bytes(text))
        try:
            found = report.build(paths, [], False)
        except UserError as error:
            assert "\n" not in error.message
            return
        _sound(json.loads(json.dumps(export.as_json(found), allow_nan=False)))
        mail.render(found)
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


# ---- Published dumps ----


def published(*names: str) -> list[Path]:
    return [SHARED / f"{name}.txt" for name in names]


@needs_data
@pytest.mark.parametrize(("bench", "ratios", "c6"), [
    ("jbb", (33.8, 50.8), (45.6, 80.4)),
    ("fio", (26.2, 24.0), (81.1, 94.6)),
])  # fmt: skip
def test_the_published_regressions_are_those_of_the_thread(
    bench: str, ratios: tuple[float, float], c6: tuple[float, float],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    names = [f"sysfs/{bench}.{side}.{when}" for side in ("good", "bad")
             for when in ("before", "after")]  # fmt: skip
    told = diff(capsys, *published(*names))
    for side in (0, 1):
        assert figure(told, "all", "ratio", side=side) == pytest.approx(ratios[side], abs=0.05)
        assert figure(told, "C6", "entries", side=side) == pytest.approx(c6[side], abs=0.05)
    _sound(told)


@needs_data
def test_the_published_share_of_wfi(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"mt8196/since-boot.{kernel}" for kernel in ("6.6", "6.12", "mainline")]
    told = diff(capsys, "--since-boot", *published(*names))
    shares = [figure(told, "WFI", "time", side=side) for side in range(3)]
    assert shares == [pytest.approx(share, abs=0.05) for share in (6.0, 99.94, 56.7)]
    said = warnings(told, 1)["rejected"]
    assert any("s2idle on CPU 0-3 is always rejected (26973 times)" in text for text in said)
    assert figure(told, "all", "rejected", side=1) == pytest.approx(18.8e6, rel=0.01)
    _sound(told)


@needs_data
def test_a_published_dump_of_another_machine_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = published("sysfs/jbb.good.before", "sysfs/fio.good.after")
    assert main(["diff", *map(str, paths)]) == 1
    assert "different machines" in command.error(capsys)
