# SPDX-License-Identifier: GPL-2.0
"""The series of patches: a cover letter, the governor, its tests, as `git format-patch` writes it.

The files of the kernel that change are put into an empty repository. The hashes of their contents
are those of the kernel's own.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.packages import remedy
from cpuidle_lab.patch.governor import Emitted
from cpuidle_lab.states import kernel_files
from cpuidle_lab.states.kernel_files import DOCUMENT, KCONFIG, MAKEFILE, KernelFiles

GOVERNORS = "drivers/cpuidle/governors"
_DOCUMENT_END = ".. _idle-states-representation:\n"
_KCONFIG_END = "config CPU_IDLE_GOV_HALTPOLL\n"
_MAKEFILE_END = "obj-$(CONFIG_CPU_IDLE_GOV_HALTPOLL)"
_WIDTH = 72
# Day of commits that are thrown away; git wants one.
_DAY = "2026-01-01T00:00:00 +0000"

LACKING = (
    "No machine has measured this yet: there are no figures of RAPL on x86, of the rails of an "
    "arm64 board, nor of an idle system over hours. There are none of fio, hackbench, schbench or "
    "sched-pipe, none of virtual machines, and no counters of idle states before and after. Energy "
    "below is modelled by target residencies. Measurements are welcome."
)


@dataclass(frozen=True)
class Author:
    """Author of the series.

    Attributes:
        name: of the author.
        address: of mail.
    """

    name: str
    address: str

    @property
    def text(self) -> str:
        """Line of a mail's header."""
        return f"{self.name} <{self.address}>"


def author_of(text: str) -> Author:
    """Return the author of "NAME <ADDRESS>", or that of git's configuration if it is "".

    Raises:
        UserError: there is none, or it has another form.
    """
    if not text:
        name, address = (_git(Path.cwd(), "config", f"user.{key}", fails="") for key in
                         ("name", "email"))  # fmt: skip
        text = f"{name} <{address}>"
    found = re.fullmatch(r"([^<>\n]+?) <([^<>\s]+@[^<>\s]+)>", text)
    if not found:
        raise UserError("give the author of the series: --author 'NAME <ADDRESS>'", USAGE)
    return Author(found[1], found[2])


def _git(folder: Path, *words: str, fails: str | None = None, author: Author | None = None) -> str:
    git = shutil.which("git")
    if not git:
        raise UserError(f"the series is written by git, which is missing: {remedy('git')}")
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    if author:
        env |= {"HOME": str(folder), "GIT_CONFIG_GLOBAL": os.devnull}
        for role in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{role}_NAME": author.name, f"GIT_{role}_EMAIL": author.address,
                    f"GIT_{role}_DATE": _DAY}  # fmt: skip
    done = subprocess.run([git, "-C", str(folder), *words], capture_output=True, text=True,
                          env=env, check=False)  # fmt: skip
    if done.returncode:
        if fails is not None:
            return fails
        raise UserError(f"git {words[0]}: {done.stderr.strip().partition(chr(10))[0]}")
    return done.stdout.strip()


def base_of(text: str, name: str) -> KernelFiles:
    """Return the files of the kernel that the series is for.

    Args:
        text: a series of Debian's kernels ("7.3"), or the path of a kernel tree.
        name: of the governor, which the tree must not have.

    Raises:
        UserError: there is no such kernel, it has the governor, or files that git does not know.
    """
    if re.fullmatch(r"\d+\.\d+", text):
        found = kernel_files.fetch(text)
    else:
        found = _of_tree(Path(text).expanduser(), text)
    if f"{name}.o" in found.texts[MAKEFILE]:
        raise UserError(f"{text} has a governor {name} already")
    return found


def _of_tree(tree: Path, text: str) -> KernelFiles:
    missing = [path for path in kernel_files.CHANGED if not (tree / path).is_file()]
    if missing:
        raise UserError(f"{text} is no kernel tree and no series such as 7.3: it has no "
                        f"{missing[0]}", USAGE)  # fmt: skip
    folders = sorted({str(Path(path).parent) for path in kernel_files.CHANGED})
    state = _git(tree, "status", "--porcelain", "--", *folders, fails="?")
    if state == "?":
        raise UserError(f"{text} is no git tree, so that it is not known whether it is clean")
    if state:
        raise UserError(f"{text} is dirty: commit or drop the change of {state.split()[-1]}")
    texts = {path: (tree / path).read_text(encoding="utf-8") for path in kernel_files.CHANGED}
    return KernelFiles(f"commit {_git(tree, 'rev-parse', '--short=12', 'HEAD')}", texts)


def _inserted(texts: Mapping[str, str], path: str, mark: str, new: str) -> str:
    before, found, after = texts[path].partition(mark)
    if not found:
        raise UserError(f"{path} has no '{mark.strip()}', before which the governor is entered")
    return f"{before}{new}{found}{after}"


def _help(text: str) -> str:
    return "\n".join(f"\t  {line}" for line in wrap(text, 70))


def _option(name: str) -> str:
    return f"CPU_IDLE_GOV_{name.upper()}"


def _governor_changes(governor: Emitted, texts: Mapping[str, str]) -> dict[str, str]:
    name, option = governor.name, _option(governor.name)
    title = f"The ``{name}`` Governor"
    sentence = _help(f"This governor decides by {governor.title}.")
    preferred = _help("The menu and TEO governors are preferred while they are built in. It is "
                      f"chosen by cpuidle.governor={name}. If unsure, say N.")  # fmt: skip
    section = "\n".join([
        f".. _{name}-gov:", "", title, "=" * len(title), "",
        *wrap(f"The ``{name}`` governor is an alternative ``CPUIdle`` governor for tickless "
              f"systems. It decides by {governor.title}.", 80), "",
        f".. kernel-doc:: {GOVERNORS}/{name}.c", f"   :doc: {name}-description", "", "",
    ])  # fmt: skip
    kconfig = (f'config {option}\n\tbool "{name.upper()} governor (for tickless systems)"\n'
               f"\thelp\n{sentence}\n\n{preferred}\n\n")  # fmt: skip
    entry = f"obj-$(CONFIG_{option}) += {name}.o\n"
    return {
        f"{GOVERNORS}/{name}.c": governor.text,
        DOCUMENT: _inserted(texts, DOCUMENT, _DOCUMENT_END, section),
        KCONFIG: _inserted(texts, KCONFIG, _KCONFIG_END, kconfig),
        MAKEFILE: _inserted(texts, MAKEFILE, _MAKEFILE_END, entry),
    }


def _test_changes(governor: Emitted, texts: Mapping[str, str]) -> dict[str, str]:
    name, option = governor.name, f"{_option(governor.name)}_KUNIT_TEST"
    words = _help(f"Tests of the {name} governor, which run at boot. They check what holds for "
                  "every decision: disabled states, the latency request, and the tick. They need "
                  "no idle CPU, because states, clock and timers are those of the tests. "
                  "If unsure, say N.")  # fmt: skip
    kconfig = (f'config {option}\n\tbool "KUnit tests of the {name.upper()} governor" '
               f"if !KUNIT_ALL_TESTS\n\tdepends on {_option(name)} && KUNIT=y\n"
               f"\tdefault KUNIT_ALL_TESTS\n\thelp\n{words}\n\n")  # fmt: skip
    included = f'\n#ifdef CONFIG_{option}\n#include "{name}_kunit.c"\n#endif\n'
    return {
        f"{GOVERNORS}/{name}.c": governor.text + included,
        f"{GOVERNORS}/{name}_kunit.c": governor.tests,
        KCONFIG: _inserted(texts, KCONFIG, _KCONFIG_END, kconfig),
    }


def _filled(*paragraphs: str) -> str:
    return "\n\n".join("\n".join(wrap(one, _WIDTH)) for one in paragraphs)


def _messages(governor: Emitted, author: Author) -> tuple[str, str]:
    name = governor.name
    constants = ", ".join(f"{key} {value}" for key, value in governor.constants.items())
    why = "There are no tunables: menu and TEO have none"
    why += f", and the evidence is for these constants alone ({constants})." if constants else "."
    first = _filled(
        f"Add a governor that decides by {governor.title}. The comment at its top describes the "
        "method, and the steps of a decision in the order of the code.",
        why,
        "Its rating is below those of menu and TEO, so no default changes.",
    )
    second = _filled(
        "Check what holds for every decision: disabled states, the latency request, the tick, and "
        "that decisions depend on nothing but inputs. The tests need no idle CPU.",
    )
    signed = f"\n\nSigned-off-by: {author.text}\n"
    return (f"cpuidle: {name}: Add the {name} governor\n\n{first}{signed}",
            f"cpuidle: {name}: Add KUnit tests\n\n{second}{signed}")  # fmt: skip


def cover(governor: Emitted, base: KernelFiles, evidence: str) -> str:
    """Return the body of the cover letter.

    Args:
        governor: the governor.
        base: the kernel.
        evidence: the mail of `cpuidle-lab review`, misses included.
    """
    return "\n\n".join([
        _filled(f"This series adds the cpuidle governor {governor.name}: {governor.title}. "
                f"It applies to {base.origin}.", LACKING,
                "The rest is by `cpuidle-lab review`: replay of both governors on the same idle "
                "periods, with what is worse, too."),
        evidence.strip(),
    ])  # fmt: skip


def write(
    governor: Emitted, base: KernelFiles, author: Author, evidence: str, target: Path
) -> list[str]:
    """Write the series into a new directory, and return the names of its mails.

    Raises:
        UserError: git is missing, or the kernel has no place for the governor.
    """
    with scratch() as folder:
        _git(folder, "init", "-q", "-b", "main", author=author)
        _commit(folder, base.texts, f"base: {base.origin}", author)
        texts = dict(base.texts)
        messages = _messages(governor, author)
        for changes, message in zip((_governor_changes, _test_changes), messages, strict=True):
            made = changes(governor, texts)
            texts |= made
            _commit(folder, made, message, author)
        target.mkdir()
        _git(folder, "format-patch", "-q", "--cover-letter", "--no-signature", "-2", "-o",
             str(target.resolve()), author=author)  # fmt: skip
    mails = sorted(path.name for path in target.iterdir())
    letter = target / mails[0]
    text = letter.read_text(encoding="utf-8")
    text = text.replace("*** SUBJECT HERE ***", f"cpuidle: Add the {governor.name} governor")
    text = text.replace("*** BLURB HERE ***", cover(governor, base, evidence))
    letter.write_text(text, encoding="utf-8")
    return mails


def _commit(folder: Path, texts: Mapping[str, str], message: str, author: Author) -> None:
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    _git(folder, "add", "--", *texts, author=author)
    _git(folder, "commit", "-q", "--no-verify", "-m", message, author=author)
