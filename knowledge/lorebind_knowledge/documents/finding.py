"""Find exact words or a regular expression in the documents of a knowledge base."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import UsageError
from lorebind_config.filters import compile_filter
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.excluded import excluded_uris
from lorebind_knowledge.documents.listing import check_limit
from lorebind_knowledge.documents.reading import Line, ingested, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog

LONGEST_PATTERN = 1000
_SECONDS = 10.0
"""After this time the search ends with what it has found."""
_EXPRESSION_MEMORY = 1 << 20
"""Bytes for a compiled expression. RE2 takes linear time; this bounds the time for a character."""


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A chunk with lines that match."""

    id: str
    uri: str
    metadata: Mapping[str, Any]
    """The metadata of the chunk, as in a `DocumentMatch`."""
    lines: Sequence[Line]
    """The lines that match."""


@dataclass(frozen=True, slots=True)
class FindResult:
    """The lines that match, ordered by document and line."""

    passages: Sequence[FoundPassage]
    cut: str = ""
    """Why there may be more; empty if this is everything."""


def find_lines(
    namespace: Namespace,
    catalog: Catalog,
    pattern: str,
    *,
    where: Mapping[str, Any],
    regex: bool = False,
    document: str | None = None,
    limit: int = 100,
) -> FindResult:
    """Find the lines that contain a text or match a regular expression, in any case of letters.

    A regular expression has RE2's syntax, so it takes linear time, and it matches within a line.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        pattern: the text or the expression.
        where: a filter; only chunks that pass are searched.
        regex: whether the pattern is an expression.
        document: the id or uri of the only document to search.
        limit: maximum number of passages.

    Raises:
        UsageError: the pattern, the filter or the limit is invalid.
        NotIngestedError: nothing has been ingested yet.
        NotFoundError: no such document.
    """
    check_limit(limit)
    matches, passes = _matcher(pattern, regex=regex), compile_filter(where)
    # PostgreSQL refuses NUL, which no stored text has.
    is_plain = pattern.isascii() and "\0" not in pattern
    contains = pattern if is_plain and not regex and document is None else ""
    passages: list[FoundPassage] = []
    seen: set[tuple[str, int]] = set()  # chunks overlap
    is_readable = document is None
    cut, deadline = "", time.monotonic() + _SECONDS
    with catalog.reading() as sql:
        index = ingested(sql, namespace, catalog)
        uri = document
        if document is not None:
            uri = catalog.ledger.uris_within(sql, index.key, [document]).get(document, document)
        excluded = excluded_uris(sql, namespace)
        chunks = Chunks(sql, index.index_uid).scan(contains, uri)
        for chunk in chunks:
            if chunk.uri in excluded:
                continue
            is_readable = is_readable or passes(chunk.metadata)
            first = chunk.metadata["line_start"]
            lines = [
                Line(number, text)
                for number, text in enumerate(chunk.text.split("\n"), first)
                if (chunk.uri, number) not in seen and matches(text)
            ]
            if lines and passes(chunk.metadata):
                if len(passages) == limit:
                    cut = f"only the first {limit} passages are given"
                    break
                seen.update((chunk.uri, number) for number, _ in lines)
                passages.append(FoundPassage(chunk.id, chunk.uri, chunk.metadata, lines))
            if time.monotonic() > deadline:
                cut = f"the search ended after {_SECONDS:.0f} seconds"
                break
    if document is not None and not is_readable:
        raise unreadable(namespace, catalog, document, where)
    passages.sort(key=lambda passage: (passage.uri, passage.lines[0][0]))
    return FindResult(passages, cut)


def _matcher(pattern: str, *, regex: bool) -> Callable[[str], object]:
    """Return the function that tells whether a line matches."""
    if not pattern.strip():
        raise UsageError("the pattern is empty; write the words to find", at=("pattern",))
    if len(pattern) > LONGEST_PATTERN:
        raise UsageError(
            f"the pattern has {len(pattern)} characters, more than {LONGEST_PATTERN}; write a "
            "shorter one",
            at=("pattern",),
        )
    if not regex:
        if "\n" in pattern:
            raise UsageError(
                "the pattern has a line break, but only single lines are compared; write a part "
                "of one line",
                at=("pattern",),
            )
        return re.compile(re.escape(pattern), re.IGNORECASE).search
    import re2

    options = re2.Options()
    options.case_sensitive, options.log_errors = False, False
    options.max_mem = _EXPRESSION_MEMORY
    try:
        expression = re2.compile(
            pattern.encode("utf-8", "surrogatepass").decode("utf-8", "replace"), options
        )
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise UsageError(
            f"the pattern is not a regular expression of RE2: {reason}; look-around and "
            "references to groups are not supported",
            at=("pattern",),
        ) from None
    search: Callable[[str], object] = expression.search
    return search
