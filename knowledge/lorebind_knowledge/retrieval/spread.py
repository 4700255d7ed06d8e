"""`max_per_document`: keep one document from filling the list if others score nearly as high."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.retrieval.query import Candidate

LOOKED_THROUGH = 100
"""Number of passages at the start of a ranking that may move. It is the same for every `top_k`, so
that a smaller `top_k` returns a prefix of a larger one."""
COMPARABLE = 0.9
"""The share of a passage's score from which another passage scores nearly as high. With 0.8, fewer
relevant passages are among the first five."""

_Scored = TypeVar("_Scored", "Candidate", "DocumentMatch")


def spread(
    ranked: Sequence[_Scored], documents: Sequence[Hashable], most: int | None
) -> list[_Scored]:
    """Reorder passages: those of a document that already has `most` follow others that are near.

    The best passage stays first. The order does not change if all other documents score far less,
    or if there are none.

    Args:
        ranked: best first.
        documents: the document of each.
        most: the maximum per document; None means no limit.
    """
    if most is None:
        return list(ranked)
    left = list(zip(ranked, documents, strict=True))
    taken: Counter[Hashable] = Counter()
    order: list[_Scored] = []
    while left:
        at = 0
        best, document = left[0]
        if taken[document] >= most:
            others = (n for n, (_, other) in enumerate(left) if taken[other] < most)
            first = next(others, 0)
            if left[first][0].score >= COMPARABLE * best.score:
                at = first
        chosen, document = left.pop(at)
        taken[document] += 1
        order.append(chosen)
    return order


def spread_matches(ranked: Sequence[DocumentMatch], most: int | None) -> list[DocumentMatch]:
    """Spread passages that have been read. A passage without a uri is its own document."""
    documents = [
        (match.metadata.get("kb_id"), match.metadata.get("uri") or match.id) for match in ranked
    ]
    return spread(ranked, documents, most)
