"""`hybrid`: what vectors find and what words find, brought together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lorebind_knowledge.retrieval.base import with_figures
from lorebind_knowledge.retrieval.fusion import fuse

if TYPE_CHECKING:
    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.retrieval.base import Ranking, Searching

_ROUNDS = 5
"""Looks at what was superseded, before it is left out; each takes a publication meanwhile."""


async def hybrid(search: Searching, limit: int) -> Ranking:
    """The fused candidates; `limit` does not change which they are, see `candidates`."""
    return fuse(await candidates(search), search.settings.fusion)


async def candidates(search: Searching) -> list[DocumentMatch]:
    """The best by vectors and the best by words, each with its cosine and its BM25.

    A passage that only one of the lists holds gets its real figure of the other too: a figure that
    is merely missing would count as the worst.
    """
    depth = search.settings.fusion.depth
    nearest, worded = await asyncio.gather(search.dense(depth), search.lexical(depth))
    found = await _of_one_version(search, {match.id: match for match in [*worded, *nearest]})
    near = {match.id: match.scores["dense"] for match in nearest}
    words = {match.id: match.scores["lexical"] for match in worded}
    no_cosine = [name for name in found if name not in near]
    no_words = [name for name in found if name not in words]
    if no_cosine:
        more = await search.dense(len(no_cosine), no_cosine)
        near |= {match.id: match.scores["dense"] for match in more}
    if no_words and words:
        more = await search.lexical(len(no_words), no_words)
        words |= {match.id: match.scores["lexical"] for match in more}
    return [
        with_figures(match, match.score, dense=near[name], lexical=words.get(name, 0.0))
        for name, match in found.items()
        if name in near  # else it was superseded since
    ]


async def _of_one_version(
    search: Searching, found: dict[str, DocumentMatch]
) -> dict[str, DocumentMatch]:
    """Without what is gone from documents of which a newer version was published meanwhile.

    The two searches see two moments. What a new version keeps of the one before has the same id.
    """
    for _ in range(_ROUNDS):
        old = found.keys() - _newest(found).keys()
        if not old:
            break
        # Looking again is a third moment, in which there may be a version that is newer still.
        kept = {match.id: match for match in await search.dense(len(old), old)}
        found = {
            name: kept.get(name, match)
            for name, match in found.items()
            if name in kept or name not in old
        }
    return _newest(found)


def _newest(found: dict[str, DocumentMatch]) -> dict[str, DocumentMatch]:
    """What is of the newest version of its document that is among these."""
    newest: dict[tuple[str, str], int] = {}
    for match in found.values():
        document = _document(match)
        newest[document] = max(newest.get(document, 0), match.generation)
    return {
        name: match for name, match in found.items() if match.generation == newest[_document(match)]
    }


def _document(match: DocumentMatch) -> tuple[str, str]:
    """Two knowledge bases may hold the same file, each with versions of its own."""
    return match.metadata["kb_id"], match.metadata["uri"]
