"""Load RTF: the text of its paragraphs and tables."""

from __future__ import annotations

import re

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import (
    LoadedDocument,
    as_title,
    check_length,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.properties import properties_of

_TITLE = re.compile(r"\{\\title\b((?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.)*+\})*+)\}", re.DOTALL)
_AUTHOR = re.compile(_TITLE.pattern.replace("title", "author"), re.DOTALL)
_TIME = r"\{\\%s((?:\\(?:yr|mo|dy|hr|min|sec)\d{1,4} ?)++)\}"
_CREATED, _CHANGED = (re.compile(_TIME % name) for name in ("creatim", "revtim"))
_PART = re.compile(r"\\(yr|mo|dy|hr|min)(\d+)")
_CODE_PAGE = re.compile(r"\\ansicpg\d++")


def load_rtf(data: bytes, uri: str) -> LoadedDocument:
    """Load RTF; the title is the document's property, or else the file name.

    Raises:
        SourceError: it is not RTF, or is broken.
    """
    markup = data.decode("latin-1")
    if not markup.lstrip().startswith("{\\rtf"):
        raise SourceError(f"{uri}: is not RTF: it does not begin with {{\\rtf")
    try:
        text, title = _text(markup), as_title(_text(_property(_TITLE, markup)))
        author = _text(_property(_AUTHOR, markup)).strip()
    except MemoryError:
        raise
    except Exception as error:  # the library converts any numbers it finds
        raise SourceError(f"{uri}: broken RTF: {error}") from error
    check_length(len(text), uri)
    lines = (line.rstrip() for line in text.strip().split("\n"))
    properties = properties_of(author, _time(_CREATED, markup), _time(_CHANGED, markup))
    title = title or title_of(uri)
    return LoadedDocument("\n".join(lines), title, format="rtf", properties=properties)


def _text(markup: str) -> str:
    from striprtf.striprtf import rtf_to_text

    # The library is not typed.
    return well_formed(str(rtf_to_text(markup, errors="replace")))  # type: ignore[no-untyped-call]


def _property(expression: re.Pattern[str], markup: str) -> str:
    """Return a property as a document of its own, with the same code page."""
    value, code_page = expression.search(markup), _CODE_PAGE.search(markup)
    return f"{{\\rtf1{code_page[0] if code_page else ''} {value[1] if value else ''}}}"


def _time(expression: re.Pattern[str], markup: str) -> str:
    """Return a time, of which RTF does not tell the zone, as a text in ISO 8601."""
    match = expression.search(markup)
    if not match:
        return ""
    parts = {name: int(number) for name, number in _PART.findall(match[1])}
    date = f"{parts.get('yr', 0):04}-{parts.get('mo', 1):02}-{parts.get('dy', 1):02}"
    return f"{date}T{parts.get('hr', 0):02}:{parts.get('min', 0):02}"
