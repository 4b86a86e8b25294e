# SPDX-License-Identifier: GPL-2.0
"""The slices of the long tests: each test has its turn, and none of them is too long."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from conftest import SECONDS, VERDICTS, Record
from tests import long

TESTS = [f"tests/lab/test_{chr(97 + n % 26)}{n}.py::test_it" for n in range(60)]
RECORD = {
    test: long.Row(test, "passed", 30.0 + n % 7 * 20, "abc", f"2026-01-{1 + n % 28:02}")
    for n, test in enumerate(TESTS)
}


def seconds(chosen: list[str]) -> float:
    return sum(RECORD[test].seconds for test in chosen)


# Commits land one by one, or in groups.
@pytest.mark.parametrize("step", [1, 2, 7, 12, 31])
def test_each_test_has_its_turn_in_so_many_slices_as_there_are(step: int) -> None:
    slices = long.pack(sorted(TESTS), {row.test: row.seconds for row in RECORD.values()})
    turns = long.next_prime(len(slices))
    assert turns < 30
    ran = [long.choose(TESTS, RECORD, 1000 + step * n, []) for n in range(turns)]
    assert {test for chosen in ran for test in chosen} == set(TESTS)
    assert max(map(seconds, ran)) <= long.SHARE_S


def test_tests_of_changed_files_come_first_the_oldest_at_the_front() -> None:
    tests = [f"tests/lab/test_{name}.py::test_it" for name in ("bpf", "evacuate", "evacuate_tool")]
    record = {test: long.Row(test, "passed", 60.0, "abc", f"2026-01-0{3 - n}")
              for n, test in enumerate(tests)}  # fmt: skip
    chosen = long.choose(TESTS + tests, RECORD | record, 5, ["module/evacuate/holder.c"])
    assert chosen[:2] == [tests[2], tests[1]]
    assert tests[0] not in chosen[:2]
    assert seconds(chosen[2:]) + 120 <= long.LIMIT_S


def test_no_test_is_chosen_that_is_too_long_or_has_never_run() -> None:
    new, slow = "tests/lab/test_bpf.py::test_new", "tests/lab/test_bpf.py::test_slow"
    record = RECORD | {slow: long.Row(slow, "passed", long.LIMIT_S + 1, "abc", "2026-01-01")}
    tests = [*TESTS, new, slow]
    assert long.oldest([*TESTS, new], record)[0] == new
    for number in range(40):
        chosen = long.choose(tests, record, number, ["tests/lab/test_bpf.py"])
        assert not {new, slow} & set(chosen)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ({"setup": "passed"}, None),  # and a signal came
        ({"setup": "passed", "call": "passed", "teardown": "passed"}, "passed"),
        ({"setup": "passed", "call": "skipped", "teardown": "passed"}, "skipped"),
        ({"setup": "passed", "call": "passed", "teardown": "failed"}, "failed"),
        ({"setup": "failed", "teardown": "passed"}, "failed"),
    ],
)
def test_a_test_that_did_not_end_has_no_verdict(
    outcomes: dict[str, str], verdict: str | None
) -> None:
    config = SimpleNamespace(stash={SECONDS: Counter[str](), VERDICTS: {}})
    record = Record(cast(pytest.Config, config))
    for when, outcome in outcomes.items():
        record.pytest_runtest_logreport(
            SimpleNamespace(
                is_long=True, nodeid="t", duration=1.0, when=when, outcome=outcome, longrepr=""
            )
        )
    rows = long.rows_of(config.stash[SECONDS], config.stash[VERDICTS])
    assert [row.verdict for row in rows] == ([verdict] if verdict else [])


def test_the_record_keeps_rows_of_other_tests(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv"
    first, second = RECORD[TESTS[0]], RECORD[TESTS[1]]
    long.save([first], path)
    long.save([second, long.Row(TESTS[0], "failed", 1.5, "def", "2026-02-01")], path)
    assert long.load(path)[TESTS[0]].verdict == "failed"
    assert long.load(path)[TESTS[1]] == second


def test_a_clean_tree_is_recorded_by_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"rev-parse": "abc1234", "status": ""}
    monkeypatch.setattr(long, "git", lambda *words: said[words[0]])
    rows = long.rows_of({"one": 1.26, "two": 2.0}, {"one": "passed", "two": "late"})
    assert [(row.test, row.seconds, row.commit) for row in rows] == [("one", 1.3, "abc1234")]
    said["status"] = " M Kbuild"
    assert long.rows_of({"one": 1.0}, {"one": "passed"})[0].commit == "abc1234+"


def test_tests_of_a_file_share_their_boot_and_their_slice() -> None:
    names = [f"tests/lab/test_long.py::test_{n}" for n in range(10)]
    record = {name: long.Row(name, "passed", 20.0, "abc", "2026-01-01") for name in names}
    for number in range(40):
        chosen = set(long.choose([*TESTS, *names], RECORD | record, number, [])) & set(names)
        assert chosen in (set(), set(names))


def test_a_kernel_is_built_if_the_cache_has_that_flavour(tmp_path: Path) -> None:
    assert not long.is_built("debug", tmp_path / "absent")
    (tmp_path / "built-debug-7.2-c45b21f6e082").mkdir()
    (tmp_path / "built-kcsan.log").touch()
    assert long.is_built("debug-7.2", tmp_path)
    assert not long.is_built("debug", tmp_path)
    assert not long.is_built("kcsan", tmp_path)
