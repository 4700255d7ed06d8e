"""`max_per_document`: a document does not fill the list where others score nearly as high."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.retrieval.query import Candidate

LOOKED_THROUGH = 100
"""Of a ranking the passages that may move. As it is the same however many are wanted, fewer stay a
prefix of more."""
NEARLY = 0.9
"""The share of a passage's score from which another passage scores nearly as high. With 0.8 fewer
right passages are among the first five."""

_Scored = TypeVar("_Scored", "Candidate", "DocumentMatch")


def spread(
    ranked: Sequence[_Scored], documents: Sequence[Hashable], most: int | None
) -> list[_Scored]:
    """The same passages. Those of a document that has given `most` come after others that are near.

    So the best passage stays first, and where all others score far less, or there are none, the
    order stays as it is.

    Args:
        ranked: best first.
        documents: the document of each.
        most: how many; None means any number.
    """
    if most is None:
        return list(ranked)
    left = list(zip(ranked, documents, strict=True))
    given: Counter[Hashable] = Counter()
    order: list[_Scored] = []
    while left:
        at = 0
        best, document = left[0]
        if given[document] >= most:
            others = (n for n, (_, other) in enumerate(left) if given[other] < most)
            first = next(others, 0)
            if left[first][0].score >= NEARLY * best.score:
                at = first
        one, document = left.pop(at)
        given[document] += 1
        order.append(one)
    return order


def spread_matches(ranked: Sequence[DocumentMatch], most: int | None) -> list[DocumentMatch]:
    """The same for passages that have been read. One without a uri is a document of its own."""
    documents = [(one.metadata.get("kb_id"), one.metadata.get("uri") or one.id) for one in ranked]
    return spread(ranked, documents, most)
