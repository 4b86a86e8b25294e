# SPDX-License-Identifier: GPL-2.0
"""Mails as they were sent: their text in the clear, and the reason where it cannot be had."""

import base64
import binascii
import re
from email import message_from_bytes, policy
from email.message import EmailMessage

from cpuidle_lab.base.errors import UserError

_HEADED = re.compile(rb"From |[A-Za-z][\w-]*:")
_MARK = b"\xef\xbb\xbf"
_ENCODINGS = {"", "7bit", "8bit", "binary", "quoted-printable", "base64"}
_QUOTED = re.compile(r"=(?:3D|20|09)|=\n")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{80,}+={0,2}\s*+")
_PATCHES = (".patch", ".diff")
_SAVE = "save the whole mail as it was sent, as `raw` of lore does"
QUOTED = f"is quoted-printable, and no header says so; {_SAVE}"


def _text(part: EmailMessage, where: str) -> str:
    """Return the text of a part of a mail, in the clear.

    Raises:
        UserError: its encoding is unknown.
    """
    if header := part.get("content-transfer-encoding"):
        # A comment behind the word is allowed there, and get_payload() knows none.
        encoding = header.cte
        if encoding not in _ENCODINGS:
            raise UserError(f"{where}: its Content-Transfer-Encoding, {encoding}, is unknown")
        part.replace_header("content-transfer-encoding", encoding)
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    try:
        return payload.decode(part.get_content_charset("utf-8"), errors="replace")
    except (LookupError, ValueError):  # of a name that is no character set, or none of texts
        return payload.decode(errors="replace")


def _is_text(part: EmailMessage) -> bool:
    if part.get_content_maintype() == "text":
        return part.get_content_subtype() != "html"
    return not part.is_multipart() and str(part.get_filename("")).endswith(_PATCHES)


def body(raw: bytes, where: str) -> tuple[EmailMessage, str]:
    """Return a mail and its text; of a patch without headers the text alone.

    Args:
        raw: the mail as it was sent.
        where: beginning of messages.

    Raises:
        UserError: its encoding is unknown.
    """
    raw = raw.removeprefix(_MARK).lstrip()
    if not _HEADED.match(raw):
        return EmailMessage(), raw.decode(errors="replace").replace("\r\n", "\n")
    if raw.startswith(b"From "):
        raw = raw.partition(b"\n")[2]
    mail = message_from_bytes(raw, policy=policy.default)
    texts = [_text(part, where) for part in mail.walk() if _is_text(part)]
    return mail, "\n".join(texts).replace("\r\n", "\n")


def mangled(mail: EmailMessage, text: str) -> str:
    """Return the reason why the lines of a patch are not those that were sent; "" if none shows."""
    if _QUOTED.search(text):
        return QUOTED
    if any("flowed" in str(part.get("content-type", "")).lower() for part in mail.walk()):
        return "a mail program has broken its lines (format=flowed); get it from the list's archive"
    return ""


def hidden(text: str) -> str:
    """Return the reason why no patch shows in a text that has one; "" if it has none."""
    try:
        clear = base64.b64decode(text) if _BASE64.fullmatch(text) else b""
    except binascii.Error:
        return ""
    return f"is in base64, and no header says so; {_SAVE}" if b"\n+++ " in clear else ""
