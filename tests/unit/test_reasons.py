# SPDX-License-Identifier: GPL-2.0
"""The proof of fidelity asks each governor for the reasons that its own source gives."""

import re
from pathlib import Path

import pytest

from tests.proofs.fidelity.run import REASONS

TOP = Path(__file__).resolve().parents[2]
GOVERNORS = TOP / "governors"
REASON = re.compile(r'X\((\w+),\s+\d+,\s+"([\w-]+)"\)')


@pytest.mark.parametrize("governor", sorted(set(REASONS) - {"base"}))
def test_the_source_gives_all_reasons_that_the_proof_asks_for(governor: str) -> None:
    texts = dict(REASON.findall((GOVERNORS / "common/reasons.h").read_text()))
    sources = GOVERNORS.joinpath(governor).glob("*.c")
    code = "".join(path.read_text() for path in sources if "kunit" not in path.name)
    given = {texts[name] for name in re.findall(r"CIL_REASON_(\w+)", code)}
    assert REASONS[governor] <= given
    assert {text for text in given if text.startswith(governor.split("_")[0])} <= REASONS[governor]
