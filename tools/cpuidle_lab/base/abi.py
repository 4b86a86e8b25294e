# SPDX-License-Identifier: GPL-2.0
"""Structs and flags of the replay library, read from the headers that its C files include.

The headers keep to plain declarations: one member a line, scalars, pointers to them, arrays
and structs. build.py has the compiler check each offset, type and constant that is read here, so
a declaration that this reader takes for another stops the build of the library.
"""

import ctypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from cpuidle_lab.base.cache import TOP

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

HEADERS = (
    "governors/common/policy.h",
    "governors/common/record.h",
    "tools/native/causes.h",
    "tools/native/replay/replay.h",
)

# Types of members, by their names in the headers: as Python has them, and as plain C has them.
_SCALARS: dict[str, tuple[Any, str]] = {
    "bool": (ctypes.c_bool, "_Bool"),
    "char": (ctypes.c_char, "char"),
    "double": (ctypes.c_double, "double"),
    "size_t": (ctypes.c_size_t, "__SIZE_TYPE__"),
    "u8": (ctypes.c_uint8, "unsigned char"),
    "u32": (ctypes.c_uint32, "__UINT32_TYPE__"),
    "u64": (ctypes.c_uint64, "__UINT64_TYPE__"),
    "s64": (ctypes.c_int64, "__INT64_TYPE__"),
}
_VALUES = {"U32_MAX": 2**32 - 1}

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCT = re.compile(r"^struct (\w+) \{(.*?)^\};", re.DOTALL | re.MULTILINE)
_CONSTANT = re.compile(r"^#define (RP_\w+|CIL_\w+)\s+\(?(-?\d\w*|[A-Z]\w*)\)?\s*$", re.MULTILINE)
_FUNCTION = re.compile(r"\w+ \(\*(\w+)\)\(.*\)", re.DOTALL)
_MEMBER = re.compile(r"(?:const )?((?:struct )?\w+) ((?:\*\s*(?:const )?)*)(\w+)((?:\[\w+\])*)")


@dataclass(frozen=True)
class Member:
    """A member of a struct.

    Attributes:
        name: its name.
        base: scalar or struct that it is made of; "" for a pointer to a function.
        pointers: levels of pointers to `base`.
        sizes: of the array that it is; empty if it is none.
    """

    name: str
    base: str
    pointers: int
    sizes: tuple[int, ...]


def _text(header: str) -> str:
    return (TOP / header).read_text(encoding="utf-8")


def _number(text: str) -> int | None:
    if text in _VALUES:
        return _VALUES[text]
    return int(text, 0) if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text) else None


def _constants(text: str) -> dict[str, int]:
    found = {name: _number(value) for name, value in _CONSTANT.findall(text)}
    return {name: value for name, value in found.items() if value is not None}


def _members(body: str, constants: Mapping[str, int]) -> Iterator[Member]:
    for line in filter(None, (part.strip() for part in body.split(";"))):
        if function := _FUNCTION.fullmatch(line):
            yield Member(function[1], "", 0, ())
            continue
        found = _MEMBER.fullmatch(" ".join(line.split()))
        if not found:
            raise ValueError(f"a struct's member is no plain declaration: {line}")
        base, stars, name, arrays = found.groups()
        sizes = re.findall(r"\w+", arrays)
        yield Member(
            name,
            base.removeprefix("struct "),
            stars.count("*"),
            tuple(constants[size] if size in constants else int(size) for size in sizes),
        )


@cache
def _declarations() -> tuple[dict[str, int], dict[str, tuple[Member, ...]]]:
    text = _COMMENT.sub("", "\n".join(_text(name) for name in HEADERS))
    constants = _constants(text)
    structs = {name: tuple(_members(body, constants)) for name, body in _STRUCT.findall(text)}
    return constants, structs


def constant(name: str) -> int:
    """Return the value of a constant of the headers.

    Raises:
        KeyError: they have none of this name.
    """
    return _declarations()[0][name]


def _ctype(member: Member) -> Any:
    if not member.base:
        return ctypes.c_void_p
    kind: Any = _SCALARS[member.base][0] if member.base in _SCALARS else struct(member.base)
    pointers = member.pointers
    if kind is ctypes.c_char and pointers:
        kind, pointers = ctypes.c_char_p, pointers - 1
    for _ in range(pointers):
        kind = ctypes.POINTER(kind)
    for size in reversed(member.sizes):
        kind *= size
    return kind


@cache
def struct(name: str) -> type[ctypes.Structure]:
    """Return a struct of the headers, with the same members.

    Raises:
        KeyError: they have none of this name.
    """
    members = _declarations()[1][name]
    fields = [(member.name, _ctype(member)) for member in members]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def columns(name: str) -> "dict[str, type[np.generic]]":
    """Return the columns that a struct points to: their types, by name, in its order."""
    # Here, since constants serve where Python is alone.
    import numpy as np

    members = _declarations()[1][name]
    return {
        member.name: np.dtype(_SCALARS[member.base][0]).type
        for member in members
        if member.pointers == 1
    }


def pointing(
    name: str, arrays: "Mapping[str, npt.NDArray[Any]]", **others: int
) -> ctypes.Structure:
    """Return a struct that points to columns.

    Args:
        name: of the struct.
        arrays: contiguous, and of the types of columns(name); NULL is in place of a missing one.
        others: values of members that are no columns.
    """
    found = struct(name)(**others)
    for member in _declarations()[1][name]:
        if member.name in arrays:
            pointer = arrays[member.name].ctypes.data_as(_ctype(member))
            setattr(found, member.name, pointer)
    return found


def _claims() -> Iterator[tuple[str, str]]:
    constants, structs = _declarations()
    for name, value in constants.items():
        yield f"{name} == {value}", name
    for name, members in structs.items():
        kind = struct(name)
        yield f"sizeof(struct {name}) == {ctypes.sizeof(kind)}", f"struct {name}"
        for member in members:
            place = f"struct {name}.{member.name}"
            offset = getattr(kind, member.name).offset
            yield f"offsetof(struct {name}, {member.name}) == {offset}", place
            if member.base:
                parts = "[0]" * (member.pointers + len(member.sizes))
                part = f"__typeof__(((struct {name} *)0)->{member.name}{parts})"
                scalar = _SCALARS.get(member.base)
                plain = scalar[1] if scalar else f"struct {member.base}"
                yield f"__builtin_types_compatible_p({part}, {plain})", place


def assertions() -> str:
    """Return a C file that compiles only if all that was read here is as the compiler has it.

    It wants the top of the project among the directories of headers.
    """
    lines = [f'#include "{header}"' for header in HEADERS]
    lines += [
        f'_Static_assert({claim}, "{what} is not what abi.py reads");' for claim, what in _claims()
    ]
    return "\n".join([*lines, ""])
