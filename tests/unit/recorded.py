# SPDX-License-Identifier: GPL-2.0
"""Recorded machines: tests/unit/machines/*.yaml, unfolded into a directory.

Each file maps paths to contents; `like` names the machine that it changes, and
null removes a file or a directory of that machine.
"""

from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

MACHINES = Path(__file__).parent / "machines"

NAMES = sorted(path.stem for path in MACHINES.glob("*.yaml"))


def files(name: str) -> dict[str, bytes]:
    """Return the files of a recorded machine: absolute path to contents."""
    return dict(_files(name))


@cache
def _files(name: str) -> dict[str, bytes]:
    text = (MACHINES / f"{name}.yaml").read_text()
    machine: dict[str, Any] = yaml.safe_load(text)
    result = files(machine["like"]) if "like" in machine else {}
    for path, content in machine["files"].items():
        if content is None:
            gone = [old for old in result if PurePosixPath(old).is_relative_to(path)]
            assert gone, f"{name}.yaml removes {path}, which is not there"
            for old in gone:
                del result[old]
        elif isinstance(content, bytes):
            result[path] = content
        else:
            text = str(content)
            result[path] = (text if text.endswith("\n") else text + "\n").encode()
    return result


def unfold(name: str, root: Path) -> Path:
    """Write a recorded machine below `root` (created if missing) and return `root`."""
    for path, content in files(name).items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if PurePosixPath(path).parent.name in ("bin", "sbin"):
            target.chmod(0o755)
    return root


def enter(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a recorded machine for the commands, work beside it, and return its root."""
    root = unfold(name, folder / "machine")
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(root))
    work = folder / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return root
