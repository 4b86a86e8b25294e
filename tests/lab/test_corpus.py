# SPDX-License-Identifier: GPL-2.0
"""The corpus' subset is built from its recipes, and is the same to the last bit when rebuilt."""

from pathlib import Path

import pytest

from cpuidle_lab.lab.corpus import SUBSET, Corpus, choose
from cpuidle_lab.recording import trace

pytestmark = pytest.mark.lab


@pytest.mark.full
def test_subset_is_built_and_repeats_itself(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    recipes = choose(SUBSET)
    assert list(corpus.build(recipes)) == recipes
    for recipe in recipes:
        recorded = trace.load(corpus.path(recipe))
        assert recorded.tables["decision"].height > 200
        assert recorded.integrity.complete
        assert recorded.cpus == recipe.cpus
    assert corpus.check(recipes[-1]) == "identical"
