"""Extend hits with the chunks before and after them in their document."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.records import DocumentMatch, Span, joined_locator

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.retrieval.query import Query

_LAST = ("end", "line_end", "page_end", "time_end")
_FIRST = tuple(name for name in Span.__slots__ if name not in _LAST)


def with_neighbours(
    query: Query, ranked: Iterable[DocumentMatch], top_k: int
) -> list[DocumentMatch]:
    """Return the first `top_k` hits with their neighboring chunks; ids and scores do not change.

    A hit that lies within an earlier, extended hit is dropped.
    """
    reach = query.settings.neighbours
    grown: list[DocumentMatch] = []
    for match in ranked:
        if len(grown) == top_k:
            break
        if not any(_within(match, other) for other in grown):
            around = query.views[match.metadata["kb_id"]].around(match.id, reach)
            # A new version may have replaced the index while the hits were reranked.
            grown.append(_joined(match, around) if around else match)
    return grown


def _joined(match: DocumentMatch, chunks: Sequence[StoredChunk]) -> DocumentMatch:
    """Join chunks, in the order of the document, to one passage without repeating overlaps."""
    text, end = "", 0
    for chunk in chunks:
        start = chunk.metadata["start"]
        if not text:
            text = chunk.text
        elif start <= end:
            text += chunk.text[end - start :]
        else:  # only whitespace separates chunks that do not touch
            text += "\n" + chunk.text
        end = max(end, chunk.metadata["end"])
    first, last = chunks[0].metadata, chunks[-1].metadata
    span: dict[str, Any] = {key: first[key] for key in _FIRST if key in first}
    span |= {key: last[key] for key in _LAST if key in last}
    if "page" in last and (page := last.get("page_end", last["page"])) != first.get("page"):
        span["page_end"] = page
    if any(chunk.metadata.get("scanned") for chunk in chunks):
        span["scanned"] = True
    locators = (str(chunk.metadata.get("locator", "")) for chunk in chunks)
    if locator := reduce(joined_locator, locators):
        span["locator"] = locator
    return replace(match, text=text, metadata={**match.metadata, **span})


def _within(match: DocumentMatch, other: DocumentMatch) -> bool:
    inner, whole = match.metadata, other.metadata
    return bool(
        (inner["kb_id"], inner["uri"]) == (whole["kb_id"], whole["uri"])
        and whole["start"] <= inner["start"]
        and inner["end"] <= whole["end"]
    )
