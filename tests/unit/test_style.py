# SPDX-License-Identifier: GPL-2.0
"""The kernel's own style checker has nothing to say about the code that runs in the kernel.

Of other C code it sees the newest change: what is not committed, with the last commit. Documents
keep to a width; their links lead somewhere. All texts keep to the first rule of words in
CONTRIBUTING.md, comments begin with no clause of the second, and documents and comments of that
code keep to the length of the third.
"""

import re
import subprocess
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

from cpuidle_lab.states.linux_source import fetch

TOP = Path(__file__).resolve().parents[2]

# Types that are waived, by the start of the path that they are waived for. CONTRIBUTING.md gives
# the reasons.
LISTS = ("COMPLEX_MACRO", "MACRO_ARG_REUSE", "TRAILING_SEMICOLON", "MACRO_ARG_UNUSED")
COMPAT = ("LINUX_VERSION_CODE", "CONSTANT_COMPARISON", "MACRO_ARG_UNUSED")
WAIVED = {
    "emul/compat.h": COMPAT,
    "governors/common/types.h": ("CAMELCASE",),
    "module/compat/": COMPAT,
    "module/trace.h": ("OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT", *LISTS),
    "module/evacuate/events.h": ("OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT"),
    "module/": LISTS,
    # The lab builds it as a part of the module.
    "tools/native/former/": ("PREFER_KERNEL_TYPES",),
    "governors/": (
        *LISTS,
        "PREFER_KERNEL_TYPES",
        "PREFER_DEFINED_ATTRIBUTE_MACRO",
        "BIT_MACRO",
        "ARRAY_SIZE",
    ),
}

SOURCES = sorted(
    path.relative_to(TOP).as_posix()
    for folder in ("module", "emul", "governors", "tools/native/former")
    for path in (TOP / folder).rglob("*.[ch]")
    if not path.name.endswith(".mod.c")
)


# For C code that does not run in the kernel.
USERSPACE = (
    *WAIVED["governors/"],
    "ARCH_DEFINES",
    "AVOID_EXTERNS",
    "CAMELCASE",
    "FILE_PATH_CHANGES",  # it is handed the C files of a change, without MAINTAINERS
    "VOLATILE",
)

CHECKPATCH = ("--no-tree", "--strict", "--terse", "--no-summary", "--show-types")


def waived(source: str) -> tuple[str, ...]:
    """Return the types that are waived for a file."""
    mine = {kind for start, kinds in WAIVED.items() if source.startswith(start) for kind in kinds}
    return tuple(sorted(mine))


def complaints(kinds: Collection[str], folder: Path, *arguments: str, patch: str = "") -> str:
    """Return what checkpatch says, in a folder where it may leave its cache.

    Args:
        kinds: types that are waived.
        folder: where it runs.
        arguments: what to look at.
        patch: its input, if it is to look at that.
    """
    command = ["perl", str(fetch().folder / "checkpatch.pl"), *CHECKPATCH]
    command += ["--max-line-length=100", *arguments]
    if kinds:
        command += [f"--ignore={','.join(kinds)}"]
    done = subprocess.run(
        command, input=patch, capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.stdout or done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kinds", sorted({waived(source) for source in SOURCES}), ids=len)
def test_checkpatch_is_content(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """One run has all files with the same waivers: half of a run for one file is its start."""
    files = [str(TOP / source) for source in SOURCES if waived(source) == kinds]
    assert complaints(kinds, tmp_path, "--file", *files) == ""


def git(*arguments: str) -> str:
    """Return what git says about the tree, or nothing where it fails."""
    done = subprocess.run(["git", *arguments], cwd=TOP, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def test_checkpatch_is_content_with_the_newest_change(tmp_path: Path) -> None:
    if not git("rev-parse", "HEAD"):
        pytest.skip("not a git clone: what has changed is unknown")
    base = "HEAD~1" if git("rev-parse", "--verify", "--quiet", "HEAD~1") else "HEAD"
    others = [f":!{folder}" for folder in ("module", "emul", "governors")]
    patch = git("diff", "--find-renames", base, "--", "*.c", "*.h", *others)
    if patch:
        assert complaints(USERSPACE, tmp_path, "--no-signoff", "-", patch=patch) == ""


WIDTH = 100
PEOPLE = re.compile(r"\b(?:whoever|nobody|somebody|someone|anybody|anyone)\b", re.IGNORECASE)
# The account, and the guests' function that runs a command as it.
ACCOUNT = re.compile(r"\bnobody(?:\(\)|:x:|\"| (?:hint|sh|unshare|ls|cat|-c)\b)")
# But for those that commands write.
WRITTEN = ("docs/tunables.md", "docs/experiments/", "experiments/")
DOCUMENTS = [name for name in git("ls-files", "*.md").split() if not name.startswith(WRITTEN)]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is no table, code, comment or picture."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "|", "<!--", "![")):
            yield number, line


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_keep_to_the_width(document: str) -> None:
    text = (TOP / document).read_text()
    wide = [f"{document}:{n}" for n, line in prose(text) if len(line) > WIDTH]
    assert wide == []


# Texts of others, this file's pattern, and pages that commands write.
PEOPLE_ALLOWED = (
    "COPYING",
    "tests/unit/test_style.py",
    "docs/experiments/",
)


def test_texts_name_components_not_people() -> None:
    """Documents, comments, help texts and messages keep to the first rule of words."""
    paths = git("ls-files", "-co", "--exclude-standard").splitlines()
    if not paths:
        pytest.skip("not a git clone: which files belong to the tree is unknown")
    found = []
    for path in paths:
        file = TOP / path
        if path.startswith(PEOPLE_ALLOWED) or not file.is_file():
            continue
        text = ACCOUNT.sub("", file.read_text(errors="replace"))
        if path == "CONTRIBUTING.md":  # states the rule, in quotation marks
            text = re.sub(r'"[a-z]+"', "", text)
        lines = enumerate(text.splitlines(), start=1)
        found += [f"{path}:{n}: {line}" for n, line in lines if PEOPLE.search(line)]
    assert found == []


COMMENTED = ("*.c", "*.h", "*.cpp", "*.py", "*.sh", "*Makefile", "Kbuild", ".ci/run")
CLAUSE = re.compile(
    r'^\s*(?:/\*\*?|\*|//|#|""")\s*(?:What|How|Which|Who|Whose|Why|Whether)\b', re.MULTILINE
)


def clauses(text: str) -> list[int]:
    """Return the lines at which a comment or docstring begins with a clause."""
    return [text.count("\n", 0, found.end()) + 1 for found in CLAUSE.finditer(text)]


def test_comments_begin_with_a_noun() -> None:
    """Comments and docstrings keep to the second rule of words, where they begin."""
    found = []
    for path in git("ls-files", *COMMENTED).splitlines():
        if (TOP / path).is_file():
            found += [f"{path}:{line}" for line in clauses((TOP / path).read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("/* What a CPU does. */\nint x;\n\t// Which CPU.", [1, 3]),
        ("/**\n * x() - how long\n *\n * How long it takes.\n */", [4]),
        ('"""Why it fails."""\n\n# Whether it fails.\nHow = "What"', [1, 3]),
        ("/* Work of a CPU. */\n# However, when nothing\n# Whatever comes", []),
        ("x = 1  # what it is\n", []),
    ],
)
def test_a_clause_is_found(text: str, lines: list[int]) -> None:
    assert clauses(text) == lines


MOST_WORDS = 25
# Strings are matched, so that nothing within them begins a comment.
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|(/\*.*?\*/|//[^\n]*)', re.DOTALL)
MARGIN = re.compile(r"\s*(?:/\*\*?|//|\*(?!/))?")
ITEM = re.compile(r"@[\w.]+:|[-*] |(?:\d+|[a-z])\. |(?:Context|Return):")


CODE = re.compile(r"`[^`]*`")


def paragraphs(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield each paragraph of numbered lines, with the number of its first line.

    A paragraph ends at an empty line, where lines are left out, and where a member, an item of a
    list or a section begins.
    """
    found: list[tuple[int, list[str]]] = []
    last = 0
    for number, line in lines:
        goes_on = found and found[-1][1][-1] and number == last + 1
        if ITEM.match(line) or not (line and goes_on):
            found.append((number, []))
        found[-1][1].append(line)
        last = number
    for number, parts in found:
        yield number, " ".join(parts)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph of the comments in C code, with its line."""
    for found in COMMENT.finditer(text):
        first = text.count("\n", 0, found.start()) + 1
        lines = (found[1] or "").removesuffix("*/").split("\n")
        bare = (MARGIN.sub("", line, count=1).strip() for line in lines)
        yield from paragraphs(enumerate(bare, first))


def passages(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph of a document, with its line.

    A heading ends a paragraph. Code is one word, and the target of a link is none.
    """
    bare = ((n, "" if line.startswith("#") else line.strip()) for n, line in prose(text))
    for number, paragraph in paragraphs(bare):
        yield number, CODE.sub("`code`", re.sub(r"\]\([^)]*\)", "]", paragraph))


def long_sentences(parts: Iterable[tuple[int, str]]) -> list[str]:
    """Return the sentences of paragraphs that have too many words."""
    return [
        f"{number}: {sentence}"
        for number, part in parts
        for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+", part.strip())
        if len([word for word in sentence.split() if re.search(r"\w", word)]) > MOST_WORDS
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_comments_have_short_sentences(source: str) -> None:
    assert long_sentences(comments((TOP / source).read_text())) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_have_short_sentences(document: str) -> None:
    assert long_sentences(passages((TOP / document).read_text())) == []


SHORT = " ".join(["word"] * MOST_WORDS)


def begins(parts: Iterable[tuple[int, str]]) -> list[int]:
    """Return the lines at which the paragraphs of the long sentences begin."""
    return [int(found.partition(":")[0]) for found in long_sentences(parts)]


@pytest.mark.parametrize(
    ("comment", "lines"),
    [
        (f"/* {SHORT}. {SHORT}. */", []),
        (f"/* {SHORT} word. */", [1]),
        (f"// {SHORT} word", [1]),
        (f"/*\n * {SHORT}.\n * {SHORT}\n * word.\n */", [2]),
        (f"/**\n * DOC: name\n *\n * - {SHORT};\n * - {SHORT}\n * @m: {SHORT[5:]}\n */", []),
        (f"/*\n * {SHORT}\n *\n *\tenergy = power x time\n *\n * 2. {SHORT} word.\n */", [6]),
        (f'"/* {SHORT} word */";', []),
        (f"{SHORT} word;", []),
    ],
)
def test_a_long_sentence_is_found(comment: str, lines: list[int]) -> None:
    assert begins(comments(comment)) == lines


@pytest.mark.parametrize(
    ("document", "lines"),
    [
        (f"{SHORT}. {SHORT}.", []),
        (f"{SHORT} word.", [1]),
        (f"# Title\n{SHORT}.\n{SHORT}\nword.\n", [2]),
        (f"{SHORT}\n\n{SHORT}\n## {SHORT} word\n{SHORT}", []),
        (f"- {SHORT};\n- {SHORT}\n  word\n1. {SHORT}", [2]),
        (f"{SHORT}\n| {SHORT} word |\n{SHORT}\n```\n{SHORT} word\n```\n{SHORT}", []),
        (f"{SHORT}\n\n    {SHORT} word\n\n2. {SHORT} word", [5]),
        (f"[{SHORT}](design.md#the lab).", []),
        (f"{SHORT[5:]} `make test. A\nB`", []),
        (f"{SHORT} `&&`", [1]),
    ],
)
def test_a_long_sentence_of_a_document_is_found(document: str, lines: list[int]) -> None:
    assert begins(passages(document)) == lines


def anchors(path: Path) -> set[str]:
    """Return the anchors that a document's headings make."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    folder = (TOP / document).parent
    links = re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)", (TOP / document).read_text())
    for name, anchor in links:
        target = folder / name if name else TOP / document
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"
