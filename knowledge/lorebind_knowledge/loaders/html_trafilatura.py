"""HTML as trafilatura reads it: the article of a page of news or of a blog.

See `preprocess.html.extractor`. Hostile pages make the library take much time and memory.
"""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.extras import import_extra
from lorebind_knowledge.loaders.html import load_html
from lorebind_knowledge.loaders.html_text import TextWriter
from lorebind_knowledge.loaders.html_tree import read_tree

if TYPE_CHECKING:
    from lorebind_knowledge.loaders.base import LoadedDocument

_EMPTY = re.compile(r"<(?!br/)(\w+)/>")
"""An empty element as XML has it. In HTML it is a start tag alone."""
_INLINE_CODE = re.compile(r"<pre>((?:(?!</?pre>)[^\n])*)</pre>")
"""The library writes `pre` for any code, also for a name within a sentence."""


def load_with_trafilatura(data: bytes, uri: str) -> LoadedDocument:
    """Text and headings of the page's article, without the comments of its readers.

    Where the library finds no article, they are those of `load_html`. The title always is.

    Args:
        data: the name of the page's charset, a line end, and the page in UTF-8.
        uri: its path or URL.

    Raises:
        SourceError: as of `load_html`, or because the library fails.
        MissingDependencyError: the extra `html` is not installed.
    """
    encoding, _, page = data.decode().partition("\n")
    document = load_html(page, uri)
    article, _ = read_tree(_article(page, uri), uri)
    writer = TextWriter(uri)
    writer.write(article)
    if text := writer.text:
        document = replace(document, text=text, headings=tuple(writer.headings))
    return document if encoding == "utf-8" else replace(document, metadata={"encoding": encoding})


def trafilatura_version() -> str:
    """Of the installed library; empty where there is none."""
    try:
        return importlib.metadata.version("trafilatura")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _article(page: str, uri: str) -> str:
    """As simple HTML: its Markdown has backslashes in names of code, which searches would miss."""
    trafilatura = import_extra("trafilatura", extra="html", purpose=f"reading {uri}")
    try:
        found = trafilatura.extract(page, output_format="html", include_comments=False)
    except MemoryError:
        raise
    except Exception as error:  # the page decides what a parser raises
        raise SourceError(
            f"{uri}: trafilatura cannot read it: {type(error).__name__}: {error}"
        ) from error
    return _INLINE_CODE.sub(r"<code>\1</code>", _EMPTY.sub(r"<\1></\1>", found or ""))
