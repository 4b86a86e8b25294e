# SPDX-License-Identifier: GPL-2.0
"""Governors that an experiment adds to the module of its boots; no other module has them."""

import re
from collections.abc import Mapping
from itertools import count

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.replay.build import FORMER

# The lists of governors that a build has, and the text that goes on with more of them.
_HEADER, _MAKE = "governors/list.h", "governors/governors.mk"
_LISTS = {
    _HEADER: r"^#define CIL_GOVERNORS\(X\)(?:.*\\\n)+\tX\(.*\)$",
    _MAKE: r"^CIL_GOVERNORS := .*$",
}
_NUMBER = re.compile(r"X\((\w+),\s*(\d+)\)")


def former(name: str) -> dict[str, str]:
    """Return the files of a governor that the module no longer has, to be put into governors/.

    Args:
        name: of the governor; a folder of FORMER.
    """
    paths = sorted((FORMER / name).glob("[!.]*.[ch]"))
    texts = {path.name: path.read_text() for path in paths if "_kunit." not in path.name}
    return {file: text.replace('"../../../../governors/', '"../') for file, text in texts.items()}


def _longer(file: str, text: str, more: str) -> str:
    """Return the text of a list of governors with more at its end."""
    found = re.findall(_LISTS[file], text, re.MULTILINE)
    if len(found) != 1:
        raise UserError(f"{file} is not understood: it has no list of governors")
    return text.replace(found[0], f"{found[0]} {more}", 1)


def changes(governors: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return files of the modules' sources, by path, with more governors, as LabRun takes them.

    A governor that has a number in list.h keeps it; the others get the next ones.

    Args:
        governors: text of each one's files, by name and name of the file.

    Raises:
        UserError: the lists are not understood.
    """
    header, make = ((TOP / file).read_text() for file in (_HEADER, _MAKE))
    numbers = {name: int(number) for name, number in _NUMBER.findall(header)}
    free = count(max(numbers.values(), default=-1) + 1)
    entries = (f"X({one}, {numbers[one] if one in numbers else next(free)})" for one in governors)
    return {
        f"governors/{name}/{file}": text
        for name, files in governors.items()
        for file, text in files.items()
    } | {
        _HEADER: _longer(_HEADER, header, " ".join(entries)),
        _MAKE: _longer(_MAKE, make, " ".join(governors)),
    }
