# SPDX-License-Identifier: GPL-2.0
"""Unit tests of the governors' decision logic, in userspace.

The same *_kunit.c sources make a KUnit module. Here they are built twice: with
the address and undefined behaviour sanitizers, and for gcov.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gcov import Coverage
from tests.logic import EVACUATION, logic
from tests.proofs.coverage import run as coverage

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build" / "unit"
SOURCES = logic("*.c")

needs_compiler = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")),
    reason="gcc and make are not installed",
)
pytestmark = needs_compiler


def run(command: Sequence[str | Path], cwd: Path = TOP) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it printed; never raises on its exit code."""
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def build(mode: str) -> Path:
    """Build the runner with all suites and return its path."""
    made = run(["make", "-C", "kunit", f"MODE={mode}"])
    assert made.returncode == 0, made.stdout + made.stderr
    return BUILD / mode / "run-kunit"


def test_cases_pass_under_sanitizers() -> None:
    """Every case passes, and neither sanitizer has anything to say."""
    result = run([build("asan")])
    assert result.returncode == 0, result.stdout + result.stderr
    assert "\nnot ok" not in result.stdout
    assert result.stderr == ""


def test_every_governor_has_cases() -> None:
    """A governor without a suite of its own would look tested."""
    listed = run([build("asan"), "--list"]).stdout.split()
    suites = {name.split(".")[0] for name in listed}
    folders = {source.parent for source in SOURCES}
    names = {"evacuate" if at == EVACUATION else at.name for at in folders} - {"common"}
    missing = [g for g in names if not any(suite.startswith(g) for suite in suites)]
    assert not missing, f"no suite for {', '.join(sorted(missing))}"


def test_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    """The cases reach nearly every line and branch; what they reach is printed."""
    found = coverage.measure()
    with capsys.disabled():
        print(f"\n{coverage.table(found)}")
    # Headers count where they hold code.
    sources = {str(source.relative_to(TOP)) for source in SOURCES}
    assert sources | {"governors/common/fixed.h"} <= found.keys()
    assert not coverage.low(found)


def test_low_coverage_is_noticed() -> None:
    """A share below its limit is named, of one source as of all."""
    poor = Coverage("poor.c", 100, 94, 100, 91, [], [])
    good = Coverage("good.c", 100, 96, 100, 90, [], [])
    assert coverage.low({"good.c": good}) == []
    assert coverage.low({"good.c": good, "poor.c": poor}) == [
        "poor.c: 94.0 % of the lines, 91.0 % of the branches"
    ]
    assert coverage.total({"good.c": good, "poor.c": poor}) == (95.0, 90.5)


# The runner itself: a runner that cannot fail would make every test above void.

SAMPLE = r"""
#include <kunit/test.h>
#include "cil_test_env.h"

static void passes(struct kunit *test)
{
	char *memory = kunit_kzalloc(test, 16, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, memory);
	KUNIT_EXPECT_EQ(test, memory[15], 0);
	KUNIT_EXPECT_STREQ(test, "a", "a");
	KUNIT_EXPECT_MEMEQ_MSG(test, "a", "a", 1, "never shown %d", 1);
}

static void asks_the_timer(struct kunit *test)
{
	struct cil_query query = { 0 };

	cil_test_env_timer(500, 300);
	KUNIT_EXPECT_EQ(test, cil_sleep_length(&query), 500LL);
	KUNIT_EXPECT_EQ(test, cil_sleep_length(&query), 500LL);
	KUNIT_EXPECT_EQ(test, query.delta_tick_ns, 300LL);
	KUNIT_EXPECT_EQ(test, cil_test_env_asked(), 1u);
}

static void cuts_a_long_dump(struct kunit *test)
{
	struct cil_sink *sink = cil_test_env_sink();
	int i;

	for (i = 0; i < 20000; i++)
		cil_env_print(sink, "%d ", i);
	KUNIT_EXPECT_EQ(test, strlen(cil_test_env_text()), (size_t)32767);
}

static void skips(struct kunit *test)
{
	kunit_skip(test, "there is no %s", "moon");
}

static void expects(struct kunit *test)
{
	KUNIT_EXPECT_LT_MSG(test, 2, 1, "seen: %d", 7);
	kunit_info(test, "goes on");
}

static void asserts(struct kunit *test)
{
	KUNIT_ASSERT_TRUE(test, 0);
	kunit_info(test, "never reached");
}

static void overflows(struct kunit *test)
{
	char *memory = kunit_kzalloc(test, 16, GFP_KERNEL);

	memory[16] = 1;
}

static struct kunit_case sample_cases[] = {
	KUNIT_CASE(passes),
	KUNIT_CASE(asks_the_timer),
	KUNIT_CASE(cuts_a_long_dump),
	KUNIT_CASE(skips),
	KUNIT_CASE(expects),
	KUNIT_CASE(asserts),
	KUNIT_CASE(overflows),
	{}
};

static struct kunit_suite sample_suite = {
	.name = "sample",
	.test_cases = sample_cases,
};

kunit_test_suite(sample_suite);
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a runner with one suite of cases that pass, fail and skip."""
    folder = tmp_path_factory.mktemp("sample")
    source = folder / "sample_kunit.c"
    source.write_text(SAMPLE, encoding="utf-8")
    runner = folder / "run-kunit"
    kunit = TOP / "kunit"
    flags = ["-g", "-fsanitize=address,undefined", f"-I{kunit}/include"]
    compiled = run(["gcc", *flags, "-o", runner, source, kunit / "runner.c", kunit / "env.c"])
    assert compiled.returncode == 0, compiled.stderr
    return runner


@pytest.mark.parametrize(
    ("name", "exit_code", "text"),
    [
        ("passes", 0, "ok 1 passes"),
        ("asks_the_timer", 0, "ok 1 asks_the_timer"),
        ("cuts_a_long_dump", 0, "ok 1 cuts_a_long_dump"),
        ("skips", 0, "ok 1 skips # SKIP there is no moon"),
        ("expects", 1, "# goes on\n    not ok 1 expects"),
        ("asserts", 1, "not ok 1 asserts"),
    ],
)
def test_runner_judges(sample: Path, name: str, exit_code: int, text: str) -> None:
    """Exit code and KTAP line follow what the case did."""
    result = run([sample, f"sample.{name}"])
    assert result.returncode == exit_code
    assert text in result.stdout
    assert "never" not in result.stdout
    assert ("seen: 7" in result.stdout) == (name == "expects")


def test_runner_notices_an_overflow(sample: Path) -> None:
    """The sanitizer covers memory that a case allocates."""
    result = run([sample, "sample.overflows"])
    assert result.returncode != 0
    assert "heap-buffer-overflow" in result.stderr


def test_runner_command_line(sample: Path) -> None:
    """Filters, the list, and what is refused."""
    assert run([sample, "--list"]).stdout.splitlines()[0] == "sample.passes"
    assert run([sample, "--list", "*.as*"]).stdout.split() == [
        "sample.asks_the_timer",
        "sample.asserts",
    ]
    assert run([sample, "--help"]).returncode == 0
    nothing = run([sample, "nothing"])
    assert (nothing.returncode, nothing.stderr) == (1, "kunit: no test matches nothing\n")
    assert run([sample, "--wrong"]).returncode == 2
    assert run([sample, "a", "b"]).returncode == 2
