# SPDX-License-Identifier: GPL-2.0
"""The record of the long tests, and the slice of them that runs with a commit.

The record is tests/long.tsv. A run with --record writes a row for each long test that ran.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import date
from itertools import count, groupby
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
RECORD = TOP / "tests" / "long.tsv"
HEAD = "test\tverdict\tseconds\tcommit\tday"

# A slice ends then, so that .ci/run ends within 40 minutes on a slow machine, too. A test that
# still runs is cut off: with a cache that is empty a slice takes longer. The rotation has two
# thirds of it, and tests of changed files the rest.
LIMIT_S = 420.0
SHARE_S = LIMIT_S * 2 / 3

# Age before the newest commit from which on the files of a commit do not count as changed.
CHANGED_S = 4 * 3600


@dataclass(frozen=True)
class Row:
    """A test's last run.

    Attributes:
        test: its name.
        verdict: passed, failed or skipped.
        seconds: wall-clock time with what it prepares.
        commit: the commit that was tested; with + if files differed from it.
        day: of the run, YYYY-MM-DD.
    """

    test: str
    verdict: str
    seconds: float
    commit: str
    day: str


def load(path: Path = RECORD) -> dict[str, Row]:
    """Return the record, by test."""
    if not path.exists():
        return {}
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:])
    return {row[0]: Row(row[0], row[1], float(row[2]), row[3], row[4]) for row in rows}


def save(rows: Iterable[Row], path: Path = RECORD) -> None:
    """Put rows into the record; those of other tests stay."""
    merged = load(path) | {row.test: row for row in rows}
    lines = ["\t".join(map(str, astuple(merged[test]))) for test in sorted(merged)]
    beside = path.with_suffix(".new")
    beside.write_text("\n".join([HEAD, *lines, ""]), encoding="utf-8")
    beside.replace(path)


def git(*words: str) -> str:
    """Return what git prints; "" where it fails, as outside of a clone."""
    command = ["git", "-C", str(TOP), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def commit() -> str:
    """Return the commit that is there, with + if files differ from it, those of records apart."""
    records = (":!tests/long.tsv", ":!docs/proofs", ":!docs/proofs.md")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *records)
    return (git("rev-parse", "--short", "HEAD") or "no commit") + ("+" if changed else "")


def rows_of(seconds: Mapping[str, float], verdicts: Mapping[str, str]) -> list[Row]:
    """Return the rows of tests that ran now, to their end."""
    now = commit()
    today = date.today().isoformat()
    return [
        Row(test, verdicts[test], round(seconds[test], 1), now, today)
        for test in seconds
        if verdicts.get(test, "late") != "late"
    ]


def day_seed() -> int:
    """Return the seed of random tests of today, YYYYMMDD."""
    return int(date.today().strftime("%Y%m%d"))


def is_built(flavour: str, cache: Path = TOP / "build" / "cache") -> bool:
    """Return whether a kernel of the project's own stands in the cache; building takes too long."""
    name = re.compile(f"built-{re.escape(flavour)}-[0-9a-f]{{12}}")
    return cache.is_dir() and any(name.fullmatch(path.name) for path in cache.iterdir())


def changed_files() -> list[str]:
    """Return the files that the newest commits changed."""
    newest = git("log", "-1", "--format=%ct")
    if not newest:
        return []
    base = git("rev-list", "-1", f"--before={int(newest) - CHANGED_S}", "HEAD")
    return git("diff", "--name-only", base, "HEAD").splitlines() if base else []


def words_of(path: str) -> set[str]:
    """Return the words in the names of a file and its folders."""
    return set(re.findall(r"[a-z0-9]+", path.rpartition(".")[0] or path))


def touches(test: str, changed: Sequence[str]) -> bool:
    """Return whether a test concerns changed files: is one, or has a word of its name in theirs."""
    file = test.partition("::")[0]
    words = words_of(Path(file).name) - {"test"}
    return any(file == path or words & words_of(path) for path in changed)


def next_prime(least: int) -> int:
    """Return the least prime that is not below `least`."""
    return next(n for n in count(max(least, 2)) if all(n % d for d in range(2, n)))


def together(tests: Iterable[str], seconds: Mapping[str, float]) -> Iterator[list[str]]:
    """Yield what runs together: the tests of a file, which share boots, if SHARE_S is enough."""
    for _, group in groupby(sorted(tests), lambda test: test.partition("::")[0]):
        file = list(group)
        yield from [file] if needs(file, seconds) <= SHARE_S else ([test] for test in file)


def needs(tests: Iterable[str], seconds: Mapping[str, float]) -> float:
    """Return how long tests take."""
    return sum(seconds[test] for test in tests)


def pack(tests: Iterable[str], seconds: Mapping[str, float]) -> list[list[str]]:
    """Cut tests into slices of SHARE_S at most; one longer test stands alone."""
    slices: list[list[str]] = [[]]
    for unit in together(tests, seconds):
        if slices[-1] and needs([*slices[-1], *unit], seconds) > SHARE_S:
            slices.append([])
        slices[-1] += unit
    return slices


def choose(
    tests: Iterable[str], record: Mapping[str, Row], number: int, changed: Sequence[str]
) -> list[str]:
    """Return the tests of a slice: those of changed files, then the next of the rotation.

    A test has its turn once it is in the record: its first run, by hand, gives its time.

    The number is taken modulo a prime. So commits that land in groups of any one size, bar that
    prime, reach each slice, too.

    Args:
        tests: all long tests.
        record: their last runs, for their times.
        number: of commits; each next number has another slice.
        changed: files whose tests come first, the one that ran longest ago at the front.
    """
    seconds = {row.test: row.seconds for row in record.values()}
    fitting = [test for test in tests if test in record and seconds[test] <= LIMIT_S]
    if not fitting:
        return []
    slices = pack(fitting, seconds)
    turn = slices[number % next_prime(len(slices)) % len(slices)]
    mine = [unit for unit in together(fitting, seconds) if touches(unit[0], changed)]
    first: list[str] = []
    for unit in sorted(mine, key=lambda unit: last(unit[0], record)):
        if needs({*first, *unit, *turn}, seconds) <= LIMIT_S:
            first += unit
    return list(dict.fromkeys([*first, *turn]))


def last(test: str, record: Mapping[str, Row]) -> tuple[str, str]:
    """Return what orders tests by their last run; those that have never run come first."""
    return record[test].day if test in record else "", test


def oldest(tests: Iterable[str], record: Mapping[str, Row]) -> list[str]:
    """Return tests by their last run, the oldest first."""
    return sorted(tests, key=lambda test: last(test, record))
