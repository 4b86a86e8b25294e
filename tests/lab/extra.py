# SPDX-License-Identifier: GPL-2.0
"""Changes of the modules' sources that a test boots with."""

from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def replaced(path: str, before: str, after: str) -> dict[str, str]:
    """Return a file of the sources with a text replaced, by path."""
    text = (TOP / path).read_text()
    assert text.count(before) == 1, before
    return {path: text.replace(before, after)}


def extra_module(source: Path) -> dict[str, str]:
    """Return the changes that build a module cil_NAME of NAME.c beside the project's, by path."""
    name = f"cil_{source.stem}"
    line = "obj-$(CONFIG_CPUIDLE_LAB) += cpuidle_lab.o\n"
    first = 'BUILT_MODULE_NAME[1]="cpuidle_emul"'
    third = f'BUILT_MODULE_NAME[2]="{name}"\n\tDEST_MODULE_LOCATION[2]="/updates/dkms"\n\t'
    return (
        replaced("Kbuild", line, f"{line}obj-m += {name}.o\n")
        | replaced("dkms.conf", first, third + first)
        | {f"{name}.c": source.read_text()}
    )
