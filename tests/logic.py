# SPDX-License-Identifier: GPL-2.0
"""Where the decision logic stands: pure C with unit tests beside it."""

from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
EVACUATION = TOP / "module/evacuate/policy"
# Replay alone has those that the module no longer has.
FORMER = TOP / "tools/native/former"


def logic(pattern: str = "*.[ch]") -> list[Path]:
    """Return the sources and headers that a pattern names, in a fixed order, without test cases."""
    found = [
        *TOP.glob(f"governors/*/{pattern}"),
        *EVACUATION.glob(pattern),
        *FORMER.glob(f"*/{pattern}"),
    ]
    return sorted(path for path in found if "_kunit" not in path.stem)
