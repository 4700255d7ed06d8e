"""RTF: the text of its paragraphs and tables."""

from __future__ import annotations

import re

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.loaders.base import (
    LONGEST_TITLE,
    LoadedDocument,
    check_length,
    title_of,
    well_formed,
)

_TITLE = re.compile(r"\{\\title ([^{}\\]++)\}")


def load_rtf(data: bytes, uri: str) -> LoadedDocument:
    """The title is the document's property, else the file's name.

    Raises:
        SourceError: when it is no RTF, or broken.
    """
    from striprtf.striprtf import rtf_to_text

    markup = data.decode("latin-1")
    if not markup.lstrip().startswith("{\\rtf"):
        raise SourceError(f"{uri}: is not RTF: it does not begin with {{\\rtf")
    try:
        text = str(rtf_to_text(markup, errors="replace"))  # type: ignore[no-untyped-call]
    except MemoryError:
        raise
    except Exception as error:  # the library converts whatever numbers it finds
        raise SourceError(f"{uri}: broken RTF: {error}") from error
    check_length(len(text), uri)
    found = _TITLE.search(markup)
    title = " ".join(found[1].split()) if found else ""
    if not 0 < len(title) <= LONGEST_TITLE:
        title = title_of(uri)
    lines = (line.rstrip() for line in well_formed(text).strip().split("\n"))
    return LoadedDocument("\n".join(lines), well_formed(title), format="rtf")
