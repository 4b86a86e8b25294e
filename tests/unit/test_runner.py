# SPDX-License-Identifier: GPL-2.0
"""Start and end of the programs of the tests."""

import signal
from collections.abc import Callable

import pytest

from cpuidle_lab.base.errors import UserError
from tests import runner

ENDS = (signal.SIGTERM, signal.SIGPIPE)


def interrupted() -> int:
    signal.raise_signal(signal.SIGPIPE)
    return 0


def refused() -> int:
    raise UserError("no machine")


@pytest.mark.parametrize(
    ("work", "code"), [(lambda: 7, 7), (interrupted, runner.INTERRUPTED), (refused, 1)]
)
def test_signals_mean_an_end_while_a_program_works_only(work: Callable[[], int], code: int) -> None:
    before = [signal.getsignal(number) for number in ENDS]
    assert runner.run("test", work) == code
    assert [signal.getsignal(number) for number in ENDS] == before
