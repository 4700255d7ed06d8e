"""Load HTML with trafilatura, which extracts the article of a news or blog page.

See `preprocess.html.extractor`. Hostile pages can make the library use much time and memory.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_config.errors import SourceError
from lorebind_config.extras import import_extra
from lorebind_knowledge.loaders.html.page import decode_page, load_html
from lorebind_knowledge.loaders.html.text import TextWriter
from lorebind_knowledge.loaders.html.tree import read_tree

if TYPE_CHECKING:
    from lorebind_knowledge.loaders.base import LoadedDocument

_EMPTY = re.compile(r"<(?!br/)(\w+)/>")
"""An empty element in XML; in HTML it would be only a start tag."""
_INLINE_CODE = re.compile(r"<pre>((?:(?!</?pre>)[^\n])*)</pre>")
"""Code within a sentence; the library writes `pre` for all code."""


def load_with_trafilatura(data: bytes, uri: str) -> LoadedDocument:
    """Load the text and headings of a page's article, without reader comments.

    If the library finds no article, the text and headings are those of `load_html`. The title
    always is.

    Args:
        data: see `decode_page`.
        uri: its path or URL.

    Raises:
        SourceError: as in `load_html`, or the library fails.
        MissingDependencyError: the extra `html` is not installed.
    """
    page, metadata = decode_page(data, uri)
    document = load_html(page, uri)
    article, _ = read_tree(_article(page, uri), uri)
    writer = TextWriter(uri)
    writer.write(article)
    if text := writer.text:
        document = replace(document, text=text, headings=tuple(writer.headings))
    return replace(document, metadata=metadata)


def _article(page: str, uri: str) -> str:
    """Return the article as simple HTML.

    The library's Markdown has backslashes in names of code, which searches would miss.
    """
    trafilatura = import_extra("trafilatura", extra="html", purpose="the extractor 'trafilatura'")
    try:
        found = trafilatura.extract(page, output_format="html", include_comments=False)
    except MemoryError:
        raise
    except Exception as error:  # a page can make a parser raise anything
        raise SourceError(
            f"{uri}: trafilatura cannot read it: {type(error).__name__}: {error}"
        ) from error
    return _INLINE_CODE.sub(r"<code>\1</code>", _EMPTY.sub(r"<\1></\1>", found or ""))
