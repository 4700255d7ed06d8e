"""From BM25 figures to matches: what every store does with them in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.records import DocumentMatch
from lorebind_knowledge.stores.checks import stored_metadata
from lorebind_knowledge.stores.matrix import score_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.filters import Predicate


def best_matches(
    rows: Iterable[tuple[str, str, str, int, float]], allows: Predicate, top_k: int
) -> list[DocumentMatch]:
    """The `top_k` best of what a filter allows, their scores relative to the best of them.

    Args:
        rows: id, text, metadata as JSON, generation and BM25; the best first. They are read only
            as far as they are needed.
        allows: the metadata filter.
        top_k: the most matches; those that tie with the last are told apart by id.
    """
    best: float | None = None
    hits: list[DocumentMatch] = []
    for id_, text, encoded, generation, bm25 in rows:
        metadata = stored_metadata(id_, text, generation, encoded)
        if not allows(metadata):
            continue
        best = best or bm25
        score = score_of(bm25 / best)
        if len(hits) >= top_k and score < hits[-1].score:
            break
        hits.append(DocumentMatch(id_, score, {"lexical": bm25}, text, metadata, generation))
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:top_k]
