"""Why passages were found: the terms that question and passage have in common."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lorebind_knowledge.embedders.sparse.base import embed_query
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.records import DocumentMatch

_MOST_TERMS = 8
_DECIMALS = 3


async def matching_terms(
    kb: IndexedKnowledgeBase, question: str, matches: Sequence[DocumentMatch]
) -> dict[str, dict[str, float]]:
    """Return for each passage, by id, the terms that it has in common with the question.

    The most important term comes first, each with its share of `scores["terms"]`.

    Raises:
        EmbedderError, StoreError: a part is unavailable.
    """
    sparse = kb.sparse
    ids = [match.id for match in matches if match.scores.get("terms")]
    if sparse is None or not ids:
        return {}
    terms = await embed_query(sparse, question)

    def read(view: View) -> dict[str, dict[int, float]]:
        looked_up = view.terms(terms)
        return {name: looked_up.shares(chunk.number) for name, chunk in view.named(ids).items()}

    with kb.threads.lane("search"):
        shares = await call(kb.index.read, kb.namespace, read)
    listed = sorted({term for of_passage in shares.values() for term in _most(of_passage)})
    names = dict(zip(listed, await call(sparse.terms, listed), strict=True))
    return {
        name: {
            names[term] or str(term): round(share / sum(shares[name].values()), _DECIMALS)
            for term, share in _most(shares[name]).items()
        }
        for name in ids
        if shares.get(name)
    }


def _most(shares: Mapping[int, float]) -> dict[int, float]:
    return dict(Counter(shares).most_common(_MOST_TERMS))
