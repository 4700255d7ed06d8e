"""Load mail: sender, recipients, date, texts, attached mails, and names of attachments."""

from __future__ import annotations

import codecs
import email
import email.policy
from collections.abc import Iterator, Sequence
from email.message import MIMEPart
from typing import Any

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import (
    LoadedDocument,
    as_title,
    joined,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.decoding import decode
from lorebind_knowledge.loaders.html.page import load_html
from lorebind_knowledge.loaders.markdown import flat_values
from lorebind_knowledge.loaders.properties import as_date, properties_of

_HEADERS = ("From", "To", "Date")
_LONGEST_HEADER = 4000
"""Number of characters of a header that are read: Python parses longer ones in quadratic time."""
_LONGEST_VALUE = 2_000
_TEXTS = ("text/plain", "text/html")
_MOST_LEVELS = 5
"""Maximum nesting of attached mails; of deeper ones only the names are written."""


class _BoundedPolicy(email.policy.EmailPolicy):
    def header_fetch_parse(self, name: str, value: str) -> str:
        bounded = value if len(value) <= _LONGEST_HEADER else f"{value[:_LONGEST_HEADER]}…"
        parsed: str = super().header_fetch_parse(name, bounded)
        return parsed


def load_mail(data: bytes, uri: str) -> LoadedDocument:
    """Load a mail; the title is its subject. HTML is read if there is no plain text.

    Raises:
        SourceError: it has no headers, or its text cannot be read.
    """
    try:
        # Type checkers take policies for generic, which Python does not.
        mail: Any = email.message_from_bytes(
            data.removeprefix(codecs.BOM_UTF8), policy=_BoundedPolicy()
        )
        headers = {name: _header(mail, name) for name in _HEADERS}
        title = _header(mail, "Subject")
        if not any(headers.values()) and not title:
            raise SourceError(f"{uri}: is not a mail: it has none of From, To, Date and Subject")
        text = joined(filter(None, _blocks(mail, _HEADERS, uri, 1)), uri, separator="\n\n")
        language = _header(mail, "Content-Language")
        if date := mail["date"]:
            headers["Date"] = as_date(date.datetime) or str(date)
    except (SourceError, MemoryError):
        raise
    except Exception as error:  # hostile headers can make the parser raise anything
        raise SourceError(f"{uri}: a broken mail: {type(error).__name__}: {error}") from error
    metadata = {
        name.lower(): value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"
        for name, value in headers.items()
        if value
    }
    title = as_title(title) or title_of(uri)
    flat = flat_values(metadata)
    properties = properties_of(flat.get("from"), flat.get("date"), language=language)
    return LoadedDocument(text, title, metadata=flat, format="mail", properties=properties)


def _header(mail: MIMEPart, name: str) -> str:
    return well_formed(" ".join(str(mail.get(name, "")).split()))


def _blocks(mail: MIMEPart, names: Sequence[str], uri: str, level: int) -> Iterator[str]:
    """Yield the headers, the texts and attached mails in order, then the attachments' names."""
    headers = ((name, _header(mail, name)) for name in names)
    yield "\n".join(f"{name}: {value}" for name, value in headers if value)
    attached: list[str] = []
    for part in _leaves(mail, attached):
        inner = next(part.iter_parts(), None)  # the content of an attached mail
        if inner is not None and inner.keys() and level < _MOST_LEVELS:
            yield from _blocks(inner, (*_HEADERS, "Subject"), uri, level + 1)
        elif part.is_attachment() or part.get_content_type() not in _TEXTS:
            attached.append(_name(part))
        else:
            yield _text(part, uri)
    yield "\n".join(f"Attachment: {name}" for name in attached)


def _leaves(part: MIMEPart, attached: list[str]) -> Iterator[MIMEPart]:
    """Yield the parts that do not consist of other parts.

    Of alternatives, one is chosen. Pictures of HTML pages are omitted.
    """
    if part.get_content_maintype() != "multipart":
        yield part
        return
    parts = list(part.iter_parts())
    match part.get_content_subtype():
        case "alternative":
            by_choice = (
                part for kind in ("plain", "html") for part in parts if part.get_body((kind,))
            )
            if chosen := next(by_choice, None):
                others = (leaf for part in parts if part is not chosen for leaf in part.walk())
                attached += [_name(leaf) for leaf in others if leaf.is_attachment()]
                parts = [chosen]
        case "related":
            parts = [
                part
                for part in parts
                if part.is_attachment() or part.get_content_maintype() in ("text", "multipart")
            ]
    for inner in parts:
        yield from _leaves(inner, attached)


def _text(part: MIMEPart, uri: str) -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    text, _ = decode(content, uri, part.get_content_charset() or "")
    if part.get_content_type() == "text/html":
        text = load_html(text, uri).text
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def _name(part: MIMEPart) -> str:
    return " ".join(well_formed(part.get_filename() or part.get_content_type()).split())
