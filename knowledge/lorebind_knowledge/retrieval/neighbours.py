"""Hits with the chunks that stand before and after them in their document."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.records import DocumentMatch, StoredRecord
    from lorebind_knowledge.retrieval.base import Ranking, Search, Searching

_FIRST = ("start", "line_start", "page", "time_start")
_LAST = ("end", "line_end", "time_end")


async def with_neighbours(
    search: Searching, ranked: Iterable[DocumentMatch], top_k: int
) -> Ranking:
    """The first `top_k` hits, each grown by its neighbours; id and figures stay the hit's own.

    A hit that lies within one that has been grown before it is in it already, and left out.
    """
    grown: Ranking = []
    for match in ranked:
        if len(grown) == top_k:
            break
        if not any(_within(match, other) for other in grown):
            grown.append(await _grown(search.part(match), match))
    return grown


async def _grown(search: Search, match: DocumentMatch) -> DocumentMatch:
    ledger, reach = search.kb.catalog.ledger, search.settings.neighbours
    ids = await call(ledger.chunk_ids, search.index, match.metadata["uri"])
    if match.id not in ids:  # a newer version of the document is being published
        return match
    at = ids.index(match.id)
    around = ids[max(at - reach, 0) : at + reach + 1]
    stored = await search.stored(around)
    return _joined(match, [stored[name] for name in around if name in stored])


def _joined(match: DocumentMatch, records: list[StoredRecord]) -> DocumentMatch:
    """One passage from chunks in the order of the document, what they repeat of each other once."""
    if not records:
        return match
    text, end = "", 0
    for record in records:
        start = record.metadata["start"]
        if not text:
            text = record.text
        elif start <= end:
            text += record.text[end - start :]
        else:  # only blanks stand between chunks that do not touch
            text += "\n" + record.text
        end = max(end, record.metadata["end"])
    first, last = records[0].metadata, records[-1].metadata
    span: dict[str, Any] = {key: first[key] for key in _FIRST if key in first}
    span |= {key: last[key] for key in _LAST if key in last}
    return replace(match, text=text, metadata={**match.metadata, **span})


def _within(match: DocumentMatch, other: DocumentMatch) -> bool:
    one, whole = match.metadata, other.metadata
    return bool(
        (one["kb_id"], one["uri"]) == (whole["kb_id"], whole["uri"])
        and whole["start"] <= one["start"]
        and one["end"] <= whole["end"]
    )
