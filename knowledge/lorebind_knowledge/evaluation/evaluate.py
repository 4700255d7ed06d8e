"""Compare the strategies of one knowledge base on the same questions."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.evaluation.bootstrap import Difference, paired_difference
from lorebind_knowledge.evaluation.metrics import ndcg, recall, reciprocal_rank
from lorebind_knowledge.retrieval.search import index_in_use, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.evaluation.dataset import Dataset
    from lorebind_knowledge.knowledge_base import KnowledgeBase

_DEPTH = 100
_CHUNKS_PER_DOCUMENT = 4


@dataclass(frozen=True, slots=True)
class StrategyScores:
    """The scores of one way of searching, averaged over the questions."""

    strategy: str
    ndcg_10: float
    recall_10: float
    recall_100: float
    mrr: float
    p50_ms: float
    """Median milliseconds per question."""
    p95_ms: float
    queries: int
    against_first: Difference | None = None
    """The difference of its nDCG@10 to that of the first way; None for the first itself."""
    ndcg_of_each: Sequence[float] = field(default=(), repr=False)
    """nDCG@10 of each question, in the order of the questions."""


async def evaluate(
    kb: KnowledgeBase,
    dataset: Dataset,
    ways: Mapping[str, RetrievalDeclaration],
    progress: Callable[[], None] = lambda: None,
) -> list[StrategyScores]:
    """Search all questions in all ways. A document scores as high as its best chunk.

    Each way is compared with the first, see `paired_difference`.

    Args:
        kb: an ingested knowledge base.
        dataset: questions with judgements. Documents are named by their uri, by their path without
            the file extension, or by their file name without it.
        ways: the settings to compare, by the names they have in the result.
        progress: called after each question.

    Raises:
        UsageError: none of the judged documents is in the knowledge base.
        LorebindError: see `search`.
    """
    with kb.threads.lane("read"):
        names = await call(_names_of_documents, kb, dataset)
    first, *others = [await _one(kb, dataset, names, *way, progress) for way in ways.items()]
    compared = [
        replace(one, against_first=paired_difference(one.ndcg_of_each, first.ndcg_of_each))
        for one in others
    ]
    return [first, *compared]


async def _one(
    kb: KnowledgeBase,
    dataset: Dataset,
    names: Callable[[str], str],
    name: str,
    settings: RetrievalDeclaration,
    progress: Callable[[], None],
) -> StrategyScores:
    figures: list[tuple[float, float, float, float]] = []
    seconds: list[float] = []
    for query, relevant in dataset.relevant.items():
        started = time.perf_counter()
        found = await rank(kb, dataset.queries[query], settings, _DEPTH * _CHUNKS_PER_DOCUMENT)
        seconds.append(time.perf_counter() - started)
        ranked = list(dict.fromkeys(names(str(match.metadata["uri"])) for match in found))
        figures.append(
            (
                ndcg(ranked, relevant, 10),
                recall(ranked, relevant, 10),
                recall(ranked, relevant, 100),
                reciprocal_rank(ranked, relevant),
            )
        )
        progress()
    ndcg_10, recall_10, recall_100, mrr = (
        statistics.fmean(column) for column in zip(*figures, strict=True)
    )
    return StrategyScores(
        name,
        ndcg_10,
        recall_10,
        recall_100,
        mrr,
        p50_ms=1000 * statistics.median(seconds),
        p95_ms=1000 * _quantile(seconds, 0.95),
        queries=len(figures),
        ndcg_of_each=[ndcg_10 for ndcg_10, *_ in figures],
    )


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def _names_of_documents(kb: KnowledgeBase, dataset: Dataset) -> Callable[[str], str]:
    """Return how judgements name documents: the first naming that matches any document."""
    judged = frozenset().union(*dataset.relevant.values())
    uris = list(kb.catalog.ledger.documents(index_in_use(kb).key))
    for name in (_as_it_is, _without_ending, _file_name):
        if any(name(uri) in judged for uri in uris):
            return name
    example = min(judged)
    raise UsageError(
        f"none of the judged documents, {example!r} among them, is in knowledge base {kb.id!r}; "
        f"its documents are called {', '.join(map(repr, uris[:3])) or 'nothing: it is empty'}, …"
    )


def _as_it_is(uri: str) -> str:
    return uri


def _without_ending(uri: str) -> str:
    folder, slash, name = uri.rpartition("/")
    return folder + slash + (name.rpartition(".")[0] or name)


def _file_name(uri: str) -> str:
    return _without_ending(uri).rpartition("/")[2]
