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

_TITLE = re.compile(r"\{\\title\b((?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.)*+\})*+)\}", re.DOTALL)
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
        text, title = _text(markup), as_title(_text(_title(markup)))
    except MemoryError:
        raise
    except Exception as error:  # the library converts any numbers it finds
        raise SourceError(f"{uri}: broken RTF: {error}") from error
    check_length(len(text), uri)
    lines = (line.rstrip() for line in text.strip().split("\n"))
    return LoadedDocument("\n".join(lines), title or title_of(uri), format="rtf")


def _text(markup: str) -> str:
    from striprtf.striprtf import rtf_to_text

    # The library is not typed.
    return well_formed(str(rtf_to_text(markup, errors="replace")))  # type: ignore[no-untyped-call]


def _title(markup: str) -> str:
    """Return the title as a document of its own, with the same code page."""
    title, code_page = _TITLE.search(markup), _CODE_PAGE.search(markup)
    return f"{{\\rtf1{code_page[0] if code_page else ''} {title[1] if title else ''}}}"
