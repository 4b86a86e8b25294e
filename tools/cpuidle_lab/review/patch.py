# SPDX-License-Identifier: GPL-2.0
"""Patches, read from mails, mailboxes and folders, and applied to the governors of a kernel."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from hashlib import sha1
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.formats import unpacked
from cpuidle_lab.review import bare, received

FOLDER = "drivers/cpuidle/governors/"
# As many lines of context may differ at either end of a hunk, as with patch(1).
FUZZ_MAX = 2

_SIZE_MAX = 16 << 20
_MAIL = re.compile(rb"(?m)^(?=From \S+ +\w{3} +\w{3} )")
_NUMBER = re.compile(r"\[[^\]]*?(\d+)/(\d+)[^\]]*\]")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_BLOBS = re.compile(r"index ([0-9a-f]{7,40})\.\.([0-9a-f]{7,40})")
_BASE = re.compile(r"^base-commit: ([0-9a-f]{12,40})", re.MULTILINE)


@dataclass(frozen=True)
class Hunk:
    """A change of some lines.

    Attributes:
        line: where it begins in the old file, from 1 on.
        old, new: lines before and after.
        lead, trail: lines of context at its begin and end.
        lines: all of them, with " ", "-" or "+" in front.
    """

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    lead: int
    trail: int
    lines: tuple[tuple[str, str], ...]

    def reversed(self) -> "Hunk":
        """Return the hunk that takes this one back."""
        turned = {" ": " ", "-": "+", "+": "-"}
        lines = tuple((turned[kind], text) for kind, text in self.lines)
        return Hunk(self.line, self.new, self.old, self.lead, self.trail, lines)


@dataclass(frozen=True)
class Change:
    """The change of a file.

    Attributes:
        path: of the file in the kernel's tree.
        hunks: in the order of the file.
        blobs: beginnings of git's hashes of the file before and after; () without them.
    """

    path: str
    hunks: tuple[Hunk, ...]
    blobs: tuple[str, ...] = ()

    @property
    def judged(self) -> str:
        """Name of the governors' file; "" if it lies elsewhere."""
        name = self.path.removeprefix(FOLDER)
        return name if name != self.path and "/" not in name else ""


@dataclass(frozen=True)
class Patch:
    """A patch of a series.

    Attributes:
        subject: of the mail, or the name of the file.
        number, total: its place in the series; 0 without one.
        changes: of files.
        base: commit that it names as its base; "" if it names none.
        message_id: of the mail, or "".
        date: of the mail; None without one.
    """

    subject: str
    number: int
    total: int
    changes: tuple[Change, ...]
    base: str = ""
    message_id: str = ""
    date: datetime | None = None


@dataclass(frozen=True)
class Misfit:
    """A hunk that does not apply.

    Attributes:
        file: name of the file.
        number: of the hunk in the patch, from 1 on.
        line: where the patch expects it.
        applied, total: hunks of the patch that applied, and all of them.
    """

    file: str
    number: int
    line: int
    applied: int
    total: int

    def __str__(self) -> str:
        return f"{self.file}, hunk {self.number} (line {self.line})"


@dataclass(frozen=True)
class Applied:
    """Files after a patch.

    Attributes:
        files: their text, by name.
        notes: hunks that applied with fuzz, and files of which the code alone was taken.
        misfit: the first hunk that did not apply; None: all did.
        blobs: files of the patch that have the hash of its index line.
        bare: names of files that have lost their comments.
    """

    files: Mapping[str, str]
    notes: tuple[str, ...]
    misfit: Misfit | None
    blobs: int
    bare: tuple[str, ...] = ()

    @property
    def strain(self) -> tuple[int, int]:
        """Amount that was forgiven; to be compared."""
        return len(self.bare), len(self.notes)


# ---- Reading ----


def _hunk(lines: Sequence[str], at: int, where: str) -> tuple[Hunk, int]:
    """Return the hunk whose head is a line, and the number of the line behind it."""
    found = _HUNK.match(lines[at])
    assert found
    start, old_count, _, new_count = found.groups()
    need = [int(old_count or 1), int(new_count or 1)]
    old: list[str] = []
    new: list[str] = []
    rows: list[tuple[str, str]] = []
    at += 1
    while need != [0, 0]:
        line = lines[at] if at < len(lines) else "?"
        # A mailer may have cut the blank of an empty line of context.
        kind, text = (line[:1] or " "), line[1:]
        if kind not in " +-" or min(need) < 0:
            raise UserError(f"{where}: the hunk at line {start} is damaged or ends too early")
        if kind != "+":
            old.append(text)
            need[0] -= 1
        if kind != "-":
            new.append(text)
            need[1] -= 1
        rows.append((kind, text))
        at += 1
    shown = "".join(kind for kind, _ in rows)
    lead = len(shown) - len(shown.lstrip(" "))
    trail = len(shown) - len(shown.rstrip(" "))
    return Hunk(int(start), tuple(old), tuple(new), lead, trail, tuple(rows)), at


def _changes(text: str, where: str) -> Iterator[Change]:
    lines = text.split("\n")
    blobs: tuple[str, ...] = ()
    at = 0
    while at < len(lines):
        if found := _BLOBS.match(lines[at]):
            blobs = found.groups()
        is_head = lines[at].startswith("--- ") and lines[at + 1 : at + 2] != []
        if not (is_head and lines[at + 1].startswith("+++ ")):
            at += 1
            continue
        names = [line[4:].split("\t")[0].strip() for line in lines[at : at + 2]]
        path = next((name for name in reversed(names) if name != "/dev/null"), "")
        at += 2
        hunks = []
        while at < len(lines) and _HUNK.match(lines[at]):
            hunk, at = _hunk(lines, at, f"{where}: {path}")
            hunks.append(hunk)
            if at < len(lines) and lines[at].startswith("\\ "):
                at += 1
        yield Change(path.partition("/")[2], tuple(hunks), blobs)
        blobs = ()


def _raw(mail: EmailMessage, name: str) -> str:
    """Return a header as it was sent: Python's parser fails on some that are malformed."""
    return next((str(value).strip() for key, value in mail.raw_items() if key.lower() == name), "")


def _date(mail: EmailMessage) -> datetime | None:
    """Return the date of a mail, None where it has none that is one."""
    try:
        found = parsedate_to_datetime(_raw(mail, "date"))
    except (TypeError, ValueError, IndexError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def parse(raw: bytes, where: str) -> Patch:
    """Return a mail, or a patch without headers, as a patch; one without hunks changes nothing.

    Raises:
        UserError: a hunk is damaged, or the mail is not in the clear; the message begins with
            `where`.
    """
    mail, text = received.body(raw, where)
    subject = " ".join(str(mail.get("Subject", "")).split())
    message_id = _raw(mail, "message-id")
    base = _BASE.search(text)
    place = _NUMBER.search(subject)
    number, total = (int(place[1]), int(place[2])) if place else (0, 0)
    try:
        changes = tuple(change for change in _changes(text, where) if change.hunks)
    except UserError:
        if reason := received.mangled(mail, text):
            raise UserError(f"{where}: {reason}") from None
        raise
    if any("=3D" in line for one in changes for hunk in one.hunks for _, line in hunk.lines):
        raise UserError(f"{where}: {received.QUOTED}")  # no line of C has that
    if not changes and (reason := received.hidden(text)):
        raise UserError(f"{where}: {reason}")
    name = subject or Path(where).name
    return Patch(name, number, total, changes, base[1] if base else "", message_id,
                 _date(mail))  # fmt: skip


def _ordered(patches: Sequence[Patch], where: Path) -> list[Patch]:
    """Return a series in its order.

    Raises:
        UserError: a patch of it is missing, or there twice.
    """
    if not all(patch.number for patch in patches):
        return list(patches)
    numbers = [patch.number for patch in patches]
    total = max(patch.total for patch in patches)
    for number in range(1, total + 1):
        count = numbers.count(number)
        if count > 1 or (not count and len(patches) > 1):
            is_there = "is there twice" if count else "is missing"
            raise UserError(f"{where}: patch {number} of {total} {is_there}")
    return sorted(patches, key=lambda patch: patch.number)


def read(path: Path) -> list[Patch]:
    """Return the patches of a file or of a folder, in the order of their numbers.

    Args:
        path: a patch, a mail, a mailbox, each of them packed or not, or a folder of these.

    Raises:
        UserError: there is none, one is damaged, or the series is not whole.
    """
    files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    found = []
    for file in files:
        with unpacked(file) as plain:
            if plain.stat().st_size > _SIZE_MAX:
                raise UserError(f"{file}: is too large for a patch")
            mails = [part for part in _MAIL.split(plain.read_bytes()) if part.strip()]
        found += [parse(raw, str(file)) for raw in mails]
    # A cover letter, and a reply, change nothing.
    patches = [patch for patch in found if patch.changes]
    if not patches:
        raise UserError(f"{path}: holds no patch")
    if not any(change.judged for patch in patches for change in patch.changes):
        named = dict.fromkeys(change.path for patch in patches for change in patch.changes)
        raise UserError(f"{path}: changes nothing in {FOLDER}, but {', '.join([*named][:3])}")
    return _ordered(patches, path)


def others(patches: Sequence[Patch]) -> list[str]:
    """Return the paths that are changed and not judged."""
    paths = (change for patch in patches for change in patch.changes if not change.judged)
    return [*dict.fromkeys(change.path for change in paths)]


# ---- Applying ----


def _place(lines: Sequence[str], hunk: Hunk, guess: int, least: int, fuzz: int) -> int | None:
    """Return the index of the line where a hunk fits, nearest to a guess."""
    lead, trail = min(fuzz, hunk.lead), min(fuzz, hunk.trail)
    old = list(hunk.old[lead : len(hunk.old) - trail])
    last = len(lines) - len(old)
    begins = (at for at in range(least + lead, last + 1) if lines[at : at + 1] == old[:1])
    fits = [at for at in begins if list(lines[at : at + len(old)]) == old]
    near = min(fits, key=lambda at: abs(at - lead - guess), default=None)
    return None if near is None else near - lead


def _one(text: str, change: Change, notes: list[str]) -> tuple[str, int]:
    """Return a text after its hunks, and the index of the first that does not apply, else -1."""
    lines = text.split("\n")
    offset = least = 0
    for number, hunk in enumerate(change.hunks):
        guess = hunk.line - 1 + offset
        for fuzz in range(FUZZ_MAX + 1):
            at = _place(lines, hunk, guess, least, fuzz)
            if at is not None:
                break
        else:
            return text, number
        if fuzz:
            notes.append(f"{change.judged} hunk {number + 1}: fuzz {fuzz}")
        # Context that differs stays as the file has it.
        lead, trail = min(fuzz, hunk.lead), min(fuzz, hunk.trail)
        new = hunk.new[lead : len(hunk.new) - trail]
        lines[at + lead : at + len(hunk.old) - trail] = new
        offset = at - (hunk.line - 1) + len(hunk.new) - len(hunk.old)
        least = at + len(hunk.new) - trail
    return "\n".join(lines), -1


def _on_code(text: str, change: Change) -> str | None:
    """Return the code of a text after its changes, without comments; None: one has no place."""
    lines = list(bare.code(text))
    parts = [part for hunk in change.hunks for part in bare.changes(hunk.lines)]
    fits = bool(parts) and all(bare.put(lines, part) for part in parts)
    return "\n".join([*lines, ""]) if fits else None


def alike(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return files before and after a patch, without comments where one of both has none."""
    ends = dict(before), dict(after)
    for name in before.keys() & after.keys():
        texts = [end[name] for end in ends]
        if texts[0] != texts[1] and any(text == bare.text(text) for text in texts):
            for end in ends:
                end[name] = bare.text(end[name])
    return ends


def _has_blob(text: str, blob: str) -> bool:
    data = text.encode()
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest().startswith(blob)


def apply(
    patches: Sequence[Patch], files: Mapping[str, str], *, reverse: bool = False, code: bool = True
) -> Applied:
    """Return the governors' files after a series.

    Args:
        patches: in their order.
        files: texts of the governors' files, by name.
        reverse: take the series back.
        code: where a hunk does not fit, apply to the file's code without its comments.
    """
    found, notes, blobs, done = dict(files), list[str](), 0, 0
    changes = [change for patch in patches for change in patch.changes if change.judged]
    total = sum(len(change.hunks) for change in changes)
    misfit = None
    stripped: dict[str, None] = {}
    for change in reversed(changes) if reverse else changes:
        if reverse:
            hunks = tuple(hunk.reversed() for hunk in change.hunks)
            change = Change(change.path, hunks, change.blobs[::-1])
        name = change.judged
        text = found.get(name, "")
        blobs += bool(change.blobs) and _has_blob(text, change.blobs[0])
        fuzz = list[str]()
        after, failed = _one(text, change, fuzz)
        if failed >= 0 and code and (bared := _on_code(text, change)) is not None:
            after, failed, fuzz = bared, -1, [f"{name}: on the code without its comments"]
            stripped[name] = None
        if failed < 0:
            found[name] = after
            notes += fuzz
            done += len(change.hunks)
            continue
        done += failed
        misfit = misfit or (name, failed + 1, change.hunks[failed].line)
    told = Misfit(*misfit, done, total) if misfit else None
    return Applied(found, tuple(dict.fromkeys(notes)), told, blobs, tuple(stripped))
