"""Mail: who wrote to whom and when, the text, and the names of what is attached."""

from __future__ import annotations

import email
import email.policy
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.loaders.base import (
    LONGEST_TITLE,
    LoadedDocument,
    joined,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.decoding import decode
from lorebind_knowledge.loaders.front_matter import flat_values
from lorebind_knowledge.loaders.html import load_html

if TYPE_CHECKING:
    from email.message import EmailMessage

_HEADERS = ("From", "To", "Date")


def load_mail(data: bytes, uri: str) -> LoadedDocument:
    """The title is the subject. Of an HTML mail without plain text, the page's text is read.

    Raises:
        SourceError: when it has no headers, or its text cannot be read.
    """
    try:
        mail = email.message_from_bytes(data, policy=email.policy.default)
        headers = {name: _header(mail, name) for name in _HEADERS}
        title = _header(mail, "Subject")
        body = _body(mail, uri)
        attached = [_name(part) for part in mail.iter_attachments()]
    except (SourceError, MemoryError):
        raise
    except Exception as error:  # hostile headers make the parser raise anything
        raise SourceError(f"{uri}: a broken mail: {type(error).__name__}: {error}") from error
    if not any(headers.values()) and not title:
        raise SourceError(f"{uri}: is not a mail: it has none of From, To, Date and Subject")
    said = {name.lower(): value for name, value in headers.items() if value}
    if date := mail["date"]:
        said["date"] = date.datetime.isoformat() if date.datetime else str(date)
    blocks = [
        "\n".join(f"{name}: {value}" for name, value in headers.items() if value),
        body,
        "\n".join(f"Attachment: {name}" for name in attached),
    ]
    return LoadedDocument(
        joined(filter(None, blocks), uri, separator="\n\n"),
        title if 0 < len(title) <= LONGEST_TITLE else title_of(uri),
        metadata=flat_values(said),
        format="mail",
    )


def _header(mail: EmailMessage, name: str) -> str:
    return well_formed(" ".join(str(mail.get(name, "")).split()))


def _body(mail: EmailMessage, uri: str) -> str:
    part = mail.get_body(("plain", "html"))
    content = part.get_payload(decode=True) if part else None
    if part is None or not isinstance(content, bytes):
        return ""
    text, _ = decode(content, uri, part.get_content_charset() or "")
    if part.get_content_type() == "text/html":
        text = load_html(text, uri).text
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def _name(part: EmailMessage) -> str:
    return " ".join(well_formed(part.get_filename() or part.get_content_type()).split())
