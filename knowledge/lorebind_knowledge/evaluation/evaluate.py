"""Compare the strategies of one knowledge base on the same questions, and plot the result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError
from lorebind_config.plugins import import_extra
from lorebind_knowledge.evaluation.metrics import (
    Difference,
    ndcg,
    paired_difference,
    recall,
    reciprocal_rank,
)
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.retrieval.search import index_in_use, rank

if TYPE_CHECKING:
    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.evaluation.dataset import Dataset
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

_DEPTH = 100
_CHUNKS_PER_DOCUMENT = 4


@dataclass(frozen=True, slots=True)
class QuestionScores:
    """The scores of one question, searched in one way."""

    id: str
    text: str
    ndcg_10: float
    recall_10: float
    recall_100: float
    mrr: float
    """1 / the rank of the first relevant document; 0 if there is none."""
    ms: float
    """Milliseconds of the search."""
    missing: list[str]
    """The relevant documents that are not among the first 10, sorted."""


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
    questions: list[QuestionScores] = field(default_factory=list)
    """The scores of each question, in the order of the judgements."""

    @property
    def ndcg_of_each(self) -> list[float]:
        """nDCG@10 of each question."""
        return [question.ndcg_10 for question in self.questions]


async def evaluate(
    kb: IndexedKnowledgeBase,
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
    scores = [await _scores_of(kb, dataset, names, *way, progress) for way in ways.items()]
    return against_first(scores)


def against_first(scores: Sequence[StrategyScores]) -> list[StrategyScores]:
    """Return the scores, of the same questions, each compared with the first."""
    first, *others = scores
    compared = [
        replace(other, against_first=paired_difference(other.ndcg_of_each, first.ndcg_of_each))
        for other in others
    ]
    return [first, *compared]


async def _scores_of(
    kb: IndexedKnowledgeBase,
    dataset: Dataset,
    names: Callable[[str], str],
    name: str,
    settings: RetrievalDeclaration,
    progress: Callable[[], None],
) -> StrategyScores:
    questions: list[QuestionScores] = []
    for query, relevant in dataset.relevant.items():
        text = dataset.queries[query]
        started = time.perf_counter()
        matches = await rank(kb, text, settings, _DEPTH * _CHUNKS_PER_DOCUMENT)
        seconds = time.perf_counter() - started
        ranked = list(dict.fromkeys(names(str(match.metadata["uri"])) for match in matches))
        questions.append(
            QuestionScores(
                query,
                text,
                ndcg_10=ndcg(ranked, relevant, 10),
                recall_10=recall(ranked, relevant, 10),
                recall_100=recall(ranked, relevant, 100),
                mrr=reciprocal_rank(ranked, relevant),
                ms=1000 * seconds,
                missing=sorted(relevant.difference(ranked[:10])),
            )
        )
        progress()
    times = [question.ms for question in questions]
    return StrategyScores(
        name,
        ndcg_10=statistics.fmean(question.ndcg_10 for question in questions),
        recall_10=statistics.fmean(question.recall_10 for question in questions),
        recall_100=statistics.fmean(question.recall_100 for question in questions),
        mrr=statistics.fmean(question.mrr for question in questions),
        p50_ms=statistics.median(times),
        p95_ms=sorted(times)[min(int(0.95 * len(times)), len(times) - 1)],
        queries=len(questions),
        questions=questions,
    )


def _names_of_documents(kb: IndexedKnowledgeBase, dataset: Dataset) -> Callable[[str], str]:
    """Return how judgements name documents: the first naming that matches any document."""
    judged = frozenset().union(*dataset.relevant.values())
    uris = list(kb.catalog.ledger.documents(index_in_use(kb).key))
    for name in (str, _without_ending, _file_name):
        if any(name(uri) in judged for uri in uris):
            return name
    example = min(judged)
    raise UsageError(
        f"none of the judged documents, {example!r} among them, is in knowledge base {kb.id!r}; "
        f"its documents are called {', '.join(map(repr, uris[:3])) or 'nothing: it is empty'}, …"
    )


def _without_ending(uri: str) -> str:
    folder, slash, name = uri.rpartition("/")
    return folder + slash + (name.rpartition(".")[0] or name)


def _file_name(uri: str) -> str:
    return _without_ending(uri).rpartition("/")[2]


_FORMATS = (".png", ".svg", ".pdf")
_MEASURES = {"ndcg_10": "nDCG@10", "recall_10": "recall@10", "mrr": "MRR"}


def plot_scores(scores: Sequence[StrategyScores], title: str, file: Path) -> None:
    """Write a bar chart with one group per strategy; the file extension selects the format.

    Raises:
        UsageError: the extension is not .png, .svg or .pdf, or the file cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """
    if file.suffix.lower() not in _FORMATS:
        raise UsageError(f"{file.name}: expected a file name with {', '.join(_FORMATS)}")
    figures = import_extra("matplotlib.figure", extra="eval", purpose="plotting an evaluation")
    figure = figures.Figure(figsize=(max(6, 1.6 * len(scores)), 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(_MEASURES)
    for place, (name, label) in enumerate(_MEASURES.items()):
        left = [at + place * width for at in range(len(scores))]
        bars = axes.bar(left, [getattr(score, name) for score in scores], width, label=label)
        axes.bar_label(bars, fmt="%.3f", fontsize=7, padding=2)
    axes.set_xticks(
        [at + width for at in range(len(scores))],
        [f"{score.strategy}\n{score.p50_ms:.0f} ms" for score in scores],
    )
    axes.set_ylim(0, 1)
    axes.set_title(title)
    axes.legend(loc="upper left", ncols=len(_MEASURES), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
