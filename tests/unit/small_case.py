# SPDX-License-Identifier: GPL-2.0
"""A case in ten lines, for tests to change."""

GOOD = """\
title: A title
claim: A claim
source: A source
question: A question
machine: spr
streams: {one: {phases: [{count: 200, wake_us: {mean: 300}}]}}
figure: {kind: latency}
cells: [{governor: wteo, reported: "2 us", agrees: [0, 400]}]
meaning: A meaning
"""
