# SPDX-License-Identifier: GPL-2.0
"""The document about the tunables says what the source says."""

from tests.unit import tunables


def test_document_is_up_to_date() -> None:
    assert tunables.DOCUMENT.read_text() == tunables.document(), "run: make tunables-doc"


def test_every_tunable_is_explained() -> None:
    for tunable in tunables.declared():
        assert tunable.what.endswith("."), tunable.name
        assert tunable.why.endswith("."), tunable.name
