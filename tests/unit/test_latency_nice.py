# SPDX-License-Identifier: GPL-2.0
"""`experiment latency-nice`: its plan, what programs print, nonsense, and its page."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.recording import state_tables
from cpuidle_lab.view.terminal import meter
from experiments import pages
from experiments.experiment import AGREES, DIFFERS, QUICK, Request
from experiments.latency_nice import cells, entry
from experiments.memo import Memo

HEAD = "cpu state power_mw entry_nj time_ns entries\n"
STATES = ("busy", *state_tables.find(cells.TABLE, cells.HZ).names)
SECOND_NS = 10**9


def write(folder: Path, name: str, **texts: str) -> None:
    """Write the files of a cell: one CPU works for a quarter of a second and sleeps for the rest.

    Args:
        folder: of the guest's results.
        name: of the cell.
        texts: of files that are different.
    """
    spent = {"busy": SECOND_NS // 4, cells.DEEP[0]: 3 * SECOND_NS // 4}

    def account(of: dict[str, int]) -> str:
        return HEAD + "".join(f"0 {state} 100 0 {of.get(state, 0)} 0\n" for state in STATES)

    latencies = "".join(f"{1000 * n}\n" for n in range(1, 102))
    files = {"before": account({}), "after": account(spent), "sensitive": latencies,
             "tolerant": latencies, "important": "500 1000000000\n"}  # fmt: skip
    for suffix, text in (files | texts).items():
        (folder / f"{name}.{suffix}").write_text(text)


def test_a_cell_is_read(tmp_path: Path) -> None:
    write(tmp_path, "pack.light")
    found = cells.read_cell(tmp_path, "pack.light")
    assert found["asleep_pct"] == pytest.approx(75)
    assert found["busy_pct"] == pytest.approx(25)
    assert found["p50_us"] == pytest.approx(51)
    assert found["p99_us"] == found["tolerant_p99_us"] == pytest.approx(100)
    assert found["records_per_s"] == 500


@pytest.mark.parametrize(
    "wrong",
    [
        {"sensitive": ""},
        {"sensitive": "7\n"},
        {"tolerant": "wakebench: no memory\n"},
        {"important": "1\n"},
        {"important": "1 0\n"},
        {"important": "x y\n"},
        {"after": ""},
        {"after": HEAD + "1 busy 100 0 0 0\n"},
    ],
)
def test_nonsense_of_the_guest_is_one_sentence(wrong: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, "pack.light", **wrong)
    with pytest.raises(UserError) as caught:
        cells.read_cell(tmp_path, "pack.light")
    assert "\n" not in caught.value.message


def planned(script: str) -> list[list[str]]:
    return [line.split()[1:] for line in script.splitlines() if line.startswith("cell ")]


def test_each_seed_runs_every_cell_in_an_order_of_its_own() -> None:
    first, second = (planned(cells.script(1, seed)) for seed in (1, 2))
    names = {cells.name_of(one, load) for load in cells.LOADS for one in cells.CONDITIONS}
    assert {words[0] for words in first} == {words[0] for words in second} == names
    assert len(first) == len(names)
    assert first != second
    claimed = {name for claim in entry.CLAIMS for name in (claim.one, claim.other)}
    assert claimed <= {one.name for one in cells.CONDITIONS}


def test_the_load_is_at_most_70_percent() -> None:
    text = (cells.HERE / "guest.sh").read_text()
    bench = re.findall(r"wakebench -w -m (\d+) -t (\d+) -s (\d+) -c (\d+)", text)
    assert len(bench) == 2
    hinted = sum(int(m) * int(t) * int(c) / (int(s) + int(c)) for m, t, s, c in bench)
    for threads, work_us, pause_us in cells.LOADS.values():
        assert hinted + threads * work_us / (work_us + pause_us) <= 0.7 * cells.CPUS


def test_modes_are_those_of_the_scheduler() -> None:
    text = (cells.HERE / "scheduler.bpf.c").read_text()
    found = {name: int(value) for name, value in re.findall(r"^#define (\w+)\t+(\d+)$", text, re.M)}
    for name in ("PACK", "PACK_ALL", "PREFER_IDLE", "BOUNDED", "AWARE"):
        assert getattr(cells, name) == found[name]
    used = 0
    for one in cells.CONDITIONS:
        used |= one.mode or 0
    assert used == 31


def known(power: float) -> dict[str, Any]:
    """Return the figures of a boot in which packing takes so many mW, and stock 1000."""
    cell = dict.fromkeys(entry.HEADS, 1000.0)
    names = [cells.name_of(one, load) for load in cells.LOADS for one in cells.CONDITIONS]
    return {name: cell | ({"power_mw": power} if name.startswith("pack.") else {})
            for name in names}  # fmt: skip


@pytest.mark.parametrize(("power", "state"), [(900, AGREES), (1000, DIFFERS), (1100, DIFFERS)])
def test_a_claim_is_judged_by_its_ratio(power: float, state: str) -> None:
    rows = {row.what: row for row in entry.rows([known(power), known(power + 1)])}
    row = rows["light, pack: power, beside stock"]
    assert row.median == pytest.approx((power + 0.5) / 1000)
    assert row.state == state
    assert rows["light, pack: p99 of the sensitive tasks, beside stock"].state == ""


def test_a_page_is_made_of_what_is_known(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(entry, "_found", lambda *_: [known(900)])
    with Memo(tmp_path / "memo.db") as memo:
        result = entry.EXPERIMENT.measure(Request(scale=QUICK), memo, meter)
    request = Request(scale=QUICK, seeds=1)
    files = pages.write(entry.EXPERIMENT, result, request, "the command",
                        tmp_path / "latency-nice.md")  # fmt: skip
    page = files[0].read_text()
    assert "Median of one seed." in page
    assert "| light, pack: power, beside stock | less | 0.9 | agrees |" in page
    assert {f"{load}.svg" for load in cells.LOADS} <= {path.name for path in files}


def test_there_is_a_boot_for_each_seed(monkeypatch: Any) -> None:
    """A quick run had one, whatever was asked for, and said so in small print."""
    booted: list[Any] = []

    def boots(runs: list[Any], *_: Any) -> list[Any]:
        booted.extend(runs)
        return []

    monkeypatch.setattr(entry, "boots", boots)
    monkeypatch.setattr(cells, "guest_files", dict)
    request = Request(scale=QUICK, seeds=3, lab=True)
    assert entry._found(request, None, meter) == []  # type: ignore[arg-type]
    assert [run.seed for run in booted] == [1, 2, 3]


def test_without_a_boot_nothing_is_claimed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(entry, "CACHE", tmp_path)
    with Memo(tmp_path / "memo.db") as memo:
        result = entry.EXPERIMENT.measure(Request(), memo, meter)
    assert [row.note for row in result.rows] == ["not measured with these sources: add --lab"]


@pytest.mark.parametrize("lab", [[], ["--lab"]])
@pytest.mark.parametrize("kernel", ["6.12", "6.1", "7.4", "x", "-1"])
def test_a_kernel_without_sched_ext_is_refused(kernel: str, lab: list[str], capfd: Any) -> None:
    words = ["experiment", "latency-nice", "--quick", f"--kernel={kernel}", *lab]
    assert main(words) == 1
    said = capfd.readouterr()
    assert f"the kernel {kernel} has no sched_ext; Debian's 7.2 and 7.3 have it" in said.err
    assert not said.out


def test_an_experiment_without_a_choice_takes_no_kernel(capfd: Any) -> None:
    assert main(["experiment", "poll-only", "--kernel", "7.2"]) == 1
    assert "poll-only: it has no choice of --kernel" in capfd.readouterr().err


def test_a_missing_compiler_is_said_before_anything_starts(monkeypatch: Any) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if "clang" in name else which(name))
    assert entry.EXPERIMENT.refusals(Request()) == []
    (why,) = entry.EXPERIMENT.refusals(replace(Request(), lab=True))
    assert "need clang of LLVM 19: apt install" in why
