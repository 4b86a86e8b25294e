# SPDX-License-Identifier: GPL-2.0
"""A governor of the project as one file of the kernel's drivers/cpuidle/governors.

One source, two forms: the pieces of governors/NAME/ and governors/common/ that decide are taken
over token by token. Names and helpers become the kernel's (forms.py), tunables become constants,
and what only the module or replay reads is left out (prune.py).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.patch import forms, layout
from cpuidle_lab.patch.pieces import Piece, closing, names, pieces, split, text_of, tokens
from cpuidle_lab.patch.prune import prune

TEMPLATES = Path(__file__).parent / "templates"
COMMON = ("fixed.h", "policy.h", "record.h", "energy.h", "fixed.c", "energy.c")
_ROLES = ("init", "select", "update")
_CALLED = {"select": "decide", "update": "update", "init": "init"}
# Members that the governor's callbacks read.
_GLUE_READS = "decision.index; decision.stop_tick; query.asked;"
MOST_LINES = 900


@dataclass(frozen=True)
class Emitted:
    """A governor in the kernel's form.

    Attributes:
        name: of the governor.
        title: of the file, without the name.
        text: of drivers/cpuidle/governors/NAME.c.
        tests: of NAME_kunit.c, which it includes where the tests are wanted.
        constants: name and value of each tunable that became a constant.
    """

    name: str
    title: str
    text: str
    tests: str
    constants: dict[str, int]


@dataclass(frozen=True)
class _Policy:
    """The names in a governor's struct cil_policy.

    Attributes:
        name: of the governor.
        state: struct with what is remembered.
        roles: function for each of init, select and update.
        tunables: of each tunable the default and its comment, in order.
    """

    name: str
    state: str
    roles: dict[str, str]
    tunables: dict[str, tuple[int, str]]


def _read(folder: Path, name: str) -> list[Piece]:
    own = folder / name
    if not own.is_dir():
        raise UserError(f"there is no governor {name} in {folder}", USAGE)
    files = [folder / "common" / one for one in COMMON if (folder / "common" / one).is_file()]
    files += sorted(path for path in own.glob("*.h") if not path.name.endswith("_kunit.h"))
    files += sorted((path for path in own.glob("*.c") if not path.name.endswith("_kunit.c")),
                    key=lambda path: (path.stem != name, path.name))  # fmt: skip
    return [piece for path in files for piece in pieces(path.read_text(encoding="utf-8"))]


def _string(text: str, member: str) -> str:
    found = re.search(rf'\.{member} = "([^"]*)"', text)
    return found[1] if found else ""


def _tunables(code: str) -> dict[str, tuple[int, str]]:
    found = {}
    for text in re.findall(r"\{([^{}]*)\}", code[code.index("{") + 1 :]):
        number = re.search(r"\.def = (\d+)", text)
        what, unit = _string(text, "what").rstrip("."), _string(text, "unit")
        said = f"{what}{f', {unit}' if unit else ''}. {_string(text, 'why')}"
        found[_string(text, "name")] = int(number[1]) if number else 0, said
    return found


def _policy(found: list[Piece], name: str) -> _Policy:
    by_name = {piece.name: piece for piece in found if piece.kind == "data"}
    policy = by_name.get(f"{name}_policy")
    if policy is None:
        raise UserError(f"governors/{name} defines no {name}_policy", USAGE)
    roles = {role: one[1] for role in _ROLES
             if (one := re.search(rf"\.{role} = (\w+)", policy.code))}  # fmt: skip
    state = re.search(r"\.state_size = sizeof\(struct (\w+)\)", policy.code)
    table = re.search(r"\.tunables = (\w+)", policy.code)
    if not state or "init" not in roles or "select" not in roles:
        raise UserError(f"{name}_policy has no struct for its state, or no init or select", USAGE)
    values = _tunables(by_name[table[1]].code) if table else {}
    return _Policy(name, state[1], roles, values)


def _refuse(found: list[Piece], policy: _Policy) -> None:
    used = {word for piece in found for word in names(piece.code)}
    for word, reason in forms.REFUSED.items():
        if word in used:
            raise UserError(f"{policy.name} cannot be a governor of the kernel: {reason}")


# Of the code of a piece.


def _called(code: str, pattern: str, name: str) -> str:
    while found := re.search(pattern, code):
        rest = tokens(code[found.end() :])
        code = code[: found.start()] + name + text_of(rest)
    return code


def _polling(code: str) -> str:
    """Replace the member of a state by the flag of the kernel's."""
    parts = tokens(code)
    for at, token in enumerate(parts):
        if token.text != "polling" or parts[at - 1].text not in (".", "->"):
            continue
        begin = at - 1
        while parts[begin - 1].kind == "name" or parts[begin - 1].text in ("]", ".", "->"):
            begin -= 1
            if parts[begin].text == "]":
                depth = 1
                while depth:
                    begin -= 1
                    depth += (parts[begin].text == "]") - (parts[begin].text == "[")
        state = text_of(parts[begin : at - 1]) + parts[at - 1].text
        made = tokens(f"({state}flags & CPUIDLE_FLAG_POLLING)")
        return _polling(text_of(parts[:begin] + made + parts[at + 1 :]))
    return code


def _state(code: str, name: str, state: str) -> str:
    """Give the state of a policy's function its type."""
    parts = tokens(code)
    at = next(i for i, one in enumerate(parts) if one.text == name)
    end = closing(parts, at + 1)
    head, body = text_of(parts[:end]), text_of(parts[end:])
    found = re.search(rf"\n\t(?:const )?struct {state} \*(\w+) = state;", body)
    variable = found[1] if found else "state"
    if found:
        body = body.replace(found[0], "", 1)
    head = re.sub(r"((?:const )?)void \*state\b", rf"\1struct {state} *{variable}", head)
    return head + body


def _variable(code: str, policy: _Policy) -> str:
    found = re.search(rf"struct {policy.state} \*(\w+)", code)
    return found[1] if found else "state"


def _constants(code: str, policy: _Policy) -> str:
    """Replace tunables by constants, and drop the check whether they have changed."""
    code = re.sub(r"\n\tif \(memcmp\([^;]*tunables\)\)\)\n[^;]*;", "", code)
    for name, (value, _) in policy.tunables.items():
        macro = f"{policy.name}_{name}".upper()
        code = re.sub(rf"\b(?:t|tunables|\w+->tunables)(?:->|\.){name}\b", macro, code)
        pattern = rf"\n\t(\S+) = ([^;]*);\n\tif \({macro}\)\n\t\t\1 = ([^;]*);"
        code = re.sub(pattern, rf"\n\t\1 = \{3 if value else 2};", code)
    return code


def _renamed(text: str, policy: _Policy) -> str:
    """Give names of common/ the governor's prefix, or the kernel's name."""
    roles = {function: f"{policy.name}_{_CALLED[role]}" for role, function in policy.roles.items()}
    upper, lower = policy.name.upper(), policy.name

    def name(found: re.Match[str]) -> str:
        word = found[0]
        if word in roles:
            return roles[word]
        if word in forms.NAMES:
            return forms.NAMES[word]
        return re.sub(r"^cil_", f"{lower}_", re.sub(r"^CIL_", f"{upper}_", word))

    return re.sub(r"\b[A-Za-z_]\w*", name, text)


def _function(code: str, name: str, policy: _Policy) -> str:
    if "void *state" in code:
        code = _state(code, name, policy.state)
    return code if code.startswith("static ") else f"static {code}"


def _kernel_code(code: str, policy: _Policy) -> str:
    for beginning, called in forms.CALLS:
        code = _called(code, beginning, called)
    for pattern, text in forms.CODE:
        code = pattern.sub(text, code)
    return _constants(_polling(code), policy)


def _words(comment: str, policy: _Policy, unused: set[str]) -> str:
    for before, after in forms.WORDS.get(policy.name, ()):
        spaced = re.compile(r"(?:\s+\*?\s*)".join(map(re.escape, before.split(" "))))
        if spaced.search(comment):
            comment = spaced.sub(after, comment)
            unused.discard(before)
    for name in policy.tunables:
        macro = f"%{policy.name}_{name}".upper()
        comment = re.sub(rf"(?<!@)\b{name}\b", macro, comment)
    for before, after in forms.COMMON_WORDS:
        comment = comment.replace(before, after)
    # "Machine" is a word, too.
    return re.sub(r"@machine\b|(?<![@\w])(?!machine\b)[A-Za-z_]\w*",
                  lambda found: _renamed(found[0], policy), comment)  # fmt: skip


def _transformed(found: list[Piece], policy: _Policy) -> Iterator[Piece]:
    unused = {before for before, _ in forms.WORDS.get(policy.name, ())}
    text = (TEMPLATES / "common.c.in").read_text(encoding="utf-8")
    theirs = {piece.name: piece for piece in pieces(text) if piece.kind == "function"}
    for piece in found:
        if piece.name in forms.NAMES or piece.kind == "prototype":
            continue
        code, comment, kind = piece.code, piece.comment, piece.kind
        if kind == "function" and piece.name in theirs:
            code, comment = theirs[piece.name].code, theirs[piece.name].comment
        if kind == "function":
            code = _function(code, piece.name, policy)
            memory = f" * @{_variable(code, policy)}: memory of the CPU"
            comment = re.sub(r" \* @state: [^\n]*", memory, comment)
        code = _kernel_code(code, policy)
        name = _renamed(piece.name, policy)
        yield replace(piece, kind=kind, name=name, code=_renamed(code, policy),
                      comment=_words(comment, policy, unused))  # fmt: skip
    if unused:
        raise UserError(f"a comment of {policy.name} has changed, of which the kernel's form has "
                        f"other words: '{min(unused)}'")  # fmt: skip


def _asserts(found: list[Piece], kept: list[Piece]) -> list[Piece]:
    """Return the assertions on types that are kept."""
    there = {piece.name for piece in kept if piece.kind == "type"}
    known = {piece.name for piece in found if piece.kind == "type"}
    return [piece for piece in found if piece.kind == "assert"
            and (about := names(piece.code) & known) and about <= there]  # fmt: skip


def _macros(policy: _Policy) -> list[Piece]:
    found = []
    for name, (value, said) in policy.tunables.items():
        macro = f"{policy.name}_{name}".upper()
        lines = wrap(said, 76, break_long_words=False)
        comment = "\n * ".join(["/*", *lines]) + "\n */" if len(lines) > 1 else f"/* {said} */"
        found.append(Piece("macro", macro, comment, f"#define {macro}\t{value}"))
    return found


def _text(piece: Piece) -> str:
    code = piece.code
    if piece.kind in ("function", "data", "assert"):
        code = layout.filled(layout.aligned(code))
    if not piece.comment:
        return code
    return f"{piece.comment.rstrip()}\n{code}"


def _head(found: list[Piece], policy: _Policy) -> tuple[str, str]:
    """Return the title and the DOC block."""
    comments = [piece.comment for piece in found if piece.kind == "comment"]
    doc = [one for one in comments if f"DOC: {policy.name}\n" in one]
    title = [one for one in comments if re.match(rf"/\*\n \* {policy.name}\b", one)]
    if not doc or not title:
        raise UserError(f"governors/{policy.name} has no title, or no comment "
                        f"'DOC: {policy.name}'")  # fmt: skip
    return title[0], doc[0].replace(f"DOC: {policy.name}", f"DOC: {policy.name}-description")


def _glue(policy: _Policy, kept: list[Piece], template: str) -> str:
    """Return what calls the governor, by a template."""
    by_name = {piece.name: piece for piece in kept}
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    arguments = {"drv": "drv", "query": "&query", "decision": "&decision",
                 "outcome": "&cpu->outcome"}  # fmt: skip
    for role, called in _CALLED.items():
        name = f"{policy.name}_{called}"
        if name not in by_name:
            text = re.sub(rf"^[^\n]*@{role}\(\)[^\n]*\n", "", text, flags=re.MULTILINE)
            continue
        parts = tokens(by_name[name].code)
        at = next(i for i, one in enumerate(parts) if one.text == name)
        inner = parts[at + 2 : closing(parts, at + 1)]
        listed = [[one.text for one in given if one.kind == "name"][-1] for given in split(inner)]
        call = ", ".join(arguments.get(word, "&cpu->memory") for word in listed)
        text = text.replace(f"@{role}()", f"{name}({call})")
    members = {kind: _declared(by_name, f"{policy.name}_{kind}") for kind in ("query", "outcome")}
    members["any"] = members["query"] | members["outcome"]
    lines = []
    for line in text.splitlines():
        found = re.search(r" *//(query|outcome|any)\.(\w+)$", line)
        if found and found[2] not in members[found[1]]:
            continue
        lines.append(line[: found.start()] if found else line)
    text = "\n".join(lines).replace("@state", f"struct {policy.state}")
    return layout.filled(layout.aligned(text.replace("@name", policy.name)))


def _declared(by_name: dict[str, Piece], name: str) -> set[str]:
    return names(by_name[name].code) if name in by_name else set()


def emit(folder: Path, name: str, author: str = "") -> Emitted:
    """Return a governor in the kernel's form.

    Args:
        folder: governors/ of the project.
        name: of the governor.
        author: line of the copyright, "" for none.

    Raises:
        UserError: it has a feature that the kernel cannot have.
    """
    found = _read(folder, name)
    policy = _policy(found, name)
    made = [*_macros(policy), *_transformed(found, policy)]
    roots = [f"{name}_{_CALLED[role]}" for role in policy.roles]
    roots += [policy.state, f"{name}_query", f"{name}_decision", f"{name}_outcome"]
    kept = prune(made, roots, _GLUE_READS)
    asserts = _asserts(made, kept)
    roots += [word for piece in asserts for word in names(piece.code)]
    kept = prune(made, roots, _GLUE_READS)
    _refuse(kept, policy)
    _refuse_rest(kept, policy)
    title, doc = _head(list(_transformed(found, policy)), policy)
    body = _joined(kept, asserts)
    glue = _glue(policy, kept, "callbacks.c.in")
    includes = _includes(body + glue)
    head = f"// SPDX-License-Identifier: GPL-2.0\n{_titled(title, author)}\n\n{doc}\n\n{includes}\n"
    text = f"{head}\n{body}\n{glue.rstrip()}\n"
    tests = _glue(policy, kept, "kunit.c.in").rstrip() + "\n"
    constants = {key: value for key, (value, _) in policy.tunables.items()}
    words = " ".join(re.sub(r"^(/| )\*/?", "", title, flags=re.MULTILINE).split())
    return Emitted(name, words.partition(" - ")[2], text, tests, constants)


def _titled(title: str, author: str) -> str:
    return title.replace("\n */", f"\n *\n * Copyright (C) {author}\n */") if author else title


def _refuse_rest(kept: list[Piece], policy: _Policy) -> None:
    by_name = {piece.name for piece in kept}
    for piece in kept:
        for word in sorted(names(piece.code)):
            if re.match(rf"{policy.name}_(env|random|hint)", word) and word not in by_name:
                raise UserError(f"{policy.name} cannot be a governor of the kernel: it uses {word}")


def _joined(kept: list[Piece], asserts: list[Piece]) -> str:
    """Return the pieces as text; macros of a group stay one."""
    listed = list(kept)
    for piece in asserts:
        needed = names(piece.code)
        listed.insert(max(i for i, one in enumerate(listed) if one.name in needed) + 1, piece)
    text = ""
    for piece in listed:
        text += _text(piece) + "\n" + ("" if piece.leads else "\n")
    return text.rstrip("\n") + "\n"


def _includes(text: str) -> str:
    used = names(text)
    found = [header for header, words in forms.HEADERS.items() if used & set(words)]
    return "\n".join(f"#include <linux/{header}>" for header in sorted(found))
