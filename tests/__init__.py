# SPDX-License-Identifier: GPL-2.0
"""Tests, proofs and campaigns; a package, so that none of another project is taken for it."""
