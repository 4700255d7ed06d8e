"""The strategies that combine vectors, words and terms: `hybrid`, `mmr`, `rerank`.

`hybrid` fuses these signals. The method `weighted` adds their raw scores by weight, each scaled to
0 to 1 over the candidates (min-max): the convex combination of Bruch, Gai and Ingber, "An Analysis
of Fusion Functions for Hybrid Retrieval" (2023). If a small index has no candidate with half of the
question's words, weighted by rarity, words are scaled by that half. Otherwise one common word would
count as much as all words. `rrf` adds 1 / (k + rank): the reciprocal rank fusion of Cormack, Clarke
and Buettcher (2009).

Smoothing lets passages gain from what the documents near to their own score: documents that are
near to each other tend to answer the same questions, the cluster hypothesis of van Rijsbergen
(1979), as score regularization of Diaz (2005) uses it.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_config.errors import UsageError
from lorebind_knowledge.cosines import dots
from lorebind_knowledge.rerankers.base import rerank_texts
from lorebind_knowledge.retrieval.judging import relevance
from lorebind_knowledge.retrieval.query import weighed
from lorebind_knowledge.retrieval.recency import counts_recency, matches_by_recency

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from lorebind_config.declarations.retrieval import (
        RetrievalDeclaration,
        Shares,
        SmoothingDeclaration,
    )
    from lorebind_knowledge.records import DocumentMatch, Matrix
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.retrieval.base import Search
    from lorebind_knowledge.retrieval.query import Candidate, Candidates, Query, Ranking

_DECIMALS = 6
_LEAST = 1e-9
"""Smallest weight and smallest length, so that nothing is divided by zero."""
_TILE = 1 << 18
"""Multiplications up to which OpenBLAS, which NumPy brings, computes a product in one thread."""
_ENOUGH = 0.5
"""The share of the figure of a text with all words from which words have their full weight."""
_NEARLY_ALL, _SHARE_OF_EXACT_WORDS = 0.9, 0.2
"""The share of that figure from which words count more, and how much more at most. Questions of
rare words gain .04 (nDCG@10), headings about .01 (MRR@10), and others hardly change."""


def fused(
    candidates: Candidates,
    settings: RetrievalDeclaration,
    full: tuple[float, float] = (0.0, 0.0),
) -> NDArray[np.float64]:
    """Return the raw score `fused` of each candidate, in the order of the candidates.

    It is in 0 to 1 and relative to the best of these candidates.

    Args:
        candidates: without duplicates, with the raw score `lexical` and, if they count, `dense`,
            `document` and `terms`.
        settings: the method, and how much each signal counts.
        full: the raw scores `lexical` and `document` of a text with all words of the question; 0
            if it has none.
    """
    fusion, raw_scores = settings.fusion, candidates.raw_scores
    if fusion.method == "rrf":
        lists = [raw_scores[name] for name in ("dense", "lexical", "terms") if name in raw_scores]
        return _reciprocal_ranks(lists, fusion.rank_constant)
    lexical, nothing = raw_scores["lexical"], np.zeros(len(candidates))
    dense, terms = raw_scores.get("dense"), raw_scores.get("terms")
    documents = raw_scores.get("document", nothing)
    words = _mixed(lexical, documents, fusion.document_weight)
    all_words = _mixed(*full, fusion.document_weight)
    shares = settings.signals.shares(dense=dense is not None, terms=terms is not None)
    moved = _moved_to_words(words, all_words, shares)
    # Only small indexes have fewer candidates than that. Scaling by the whole question helps there
    # (MRR@10 +.013 among 10 documents), and costs quality for long questions in larger ones.
    least = _ENOUGH * all_words if len(candidates) < fusion.depth else 0.0
    figures = (shares.lexical + moved) * scaled(words, least)
    if dense is not None:
        figures += (shares.dense - moved) * scaled(dense)
    if terms is not None:
        figures += shares.terms * scaled(terms)
    return np.round(figures, _DECIMALS)


def _moved_to_words(words: NDArray[np.float64], all_words: float, shares: Shares) -> float:
    """Return the share that moves from vectors to words if a passage has nearly all the words.

    Such a question names what it looks for. The weight of rare words decides what is nearly all.
    """
    if not all_words or not shares.lexical or not len(words):
        return 0.0
    complete = (float(words.max()) / all_words - _NEARLY_ALL) / (1 - _NEARLY_ALL)
    return min(_SHARE_OF_EXACT_WORDS, shares.dense) * min(max(complete, 0.0), 1.0)


def _mixed(figures: Any, others: Any, share_of_others: float) -> Any:
    return (1 - share_of_others) * figures + share_of_others * others


def scaled(figures: NDArray[np.float64], high: float = 0.0) -> NDArray[np.float64]:
    """Scale values linearly to 0 to 1. Equal values become 1, or 0 if they are not positive.

    Args:
        figures: the values.
        high: the value that becomes 1, if no value is higher.
    """
    if not len(figures):
        return figures
    low, high = figures.min(), max(high, figures.max())
    if high == low:
        return np.full(len(figures), 1.0 if high > 0 else 0.0)
    stretched: NDArray[np.float64] = (figures - low) / (high - low)
    return stretched


def _reciprocal_ranks(lists: Sequence[NDArray[np.float64]], constant: int) -> NDArray[np.float64]:
    """Return the sums over all lists, divided by the sum of a passage that is first in each."""
    most = len(lists) / (constant + 1)
    sums = np.sum([1 / (constant + _ranks(figures)) for figures in lists], axis=0) / most
    # Many sums end in a half, which NumPy may round the other way: it multiplies before rounding.
    return np.array([round(total, _DECIMALS) for total in sums.tolist()])


def _ranks(figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each value's rank from 1; equal values share one, and 0 or less ranks at infinity."""
    better = len(figures) - np.searchsorted(np.sort(figures), figures, side="right")
    return np.where(figures > 0, better + 1.0, np.inf)


def smooth(
    candidates: Candidates,
    fused: NDArray[np.float64],
    documents: Sequence[Hashable],
    vectors: Matrix,
    smoothing: SmoothingDeclaration,
) -> Candidates:
    """Return the candidates, best first, by their own score and the scores of near documents.

    The raw score `smoothed` comes from near documents. The raw score `fused` is the mix of both.

    Args:
        candidates: all of them, in any order.
        fused: the score of each before it is mixed.
        documents: the document of each.
        vectors: the unit vector of each, shape (candidates, dimension).
        smoothing: how much near documents count, and how many.
    """
    if not candidates:
        return candidates
    near = scores_of_near_documents(fused, documents, vectors, smoothing.documents)
    mixed = (1 - smoothing.weight) * fused + smoothing.weight * near
    figures = {**candidates.raw_scores, "smoothed": np.round(near, _DECIMALS)}
    return weighed(
        replace(candidates, raw_scores=figures), np.round(mixed, _DECIMALS), name="fused"
    )


def scores_of_near_documents(
    figures: NDArray[np.float64], documents: Sequence[Hashable], vectors: Matrix, count: int
) -> NDArray[np.float64]:
    """For each passage the mean figure of the documents nearest to its own, by their cosines.

    A document has the figure of its best passage, and the direction of the sum of its passages. One
    that is alone has its own figure.

    Args:
        figures, documents, vectors: of each passage.
        count: how many documents.
    """
    places: dict[Hashable, int] = {}
    owners = np.array([places.setdefault(document, len(places)) for document in documents])
    together = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[together], np.arange(len(places)))
    best: NDArray[np.float64] = np.maximum.reduceat(figures[together], starts)
    if len(best) == 1:
        return np.full(len(owners), best[0])
    sums = vectors[together[starts]]
    sizes = np.bincount(owners)
    for nth in range(1, sizes.max()):  # few times; `np.add.reduceat` takes longer
        more = np.flatnonzero(sizes > nth)
        sums[more] += vectors[together[starts[more] + nth]]
    likeness = _cosines(sums)
    np.fill_diagonal(likeness, -np.inf)
    count = min(count, len(best) - 1)
    near = np.argpartition(-likeness, count - 1, axis=1)[:, :count]
    weights = np.maximum(np.take_along_axis(likeness, near, axis=1), _LEAST)
    means = (weights * best[near]).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(means[owners], np.float64)


def _cosines(vectors: Matrix) -> Matrix:
    """Return the cosine of every two rows, shape (rows, rows), and 0 for a row of length 0.

    The product is computed in tiles. BLAS would divide the whole product among threads, which wait
    for each other if other searches keep the processors busy; see `stores.product`.
    """
    count, dimension = vectors.shape
    side = max(isqrt(_TILE // dimension), 1)
    tiles = np.zeros((-(-count // side), side, dimension), np.float32)
    tiles.reshape(-1, dimension)[:count] = vectors
    padded = len(tiles) * side
    tiled = tiles[:, None] @ tiles.transpose(0, 2, 1)
    products = tiled.transpose(0, 2, 1, 3).reshape(padded, padded)[:count, :count]
    lengths = np.maximum(np.sqrt(np.diagonal(products)), _LEAST)
    cosines: Matrix = products / lengths / lengths[:, None]
    return cosines


def hybrid(query: Query, limit: int) -> Candidates:
    """Return all fused candidates; `limit` does not change them."""
    fusion = query.settings.fusion
    candidates = query.hybrid_candidates(fusion.depth)
    scores = fused(candidates, query.settings, query.full_scores())
    if not fusion.smoothing.weight:
        return weighed(candidates, scores, name="fused")
    documents = query.documents(candidates.passages)
    vectors = query.vectors(candidates.passages)
    return smooth(candidates, scores, documents, vectors, fusion.smoothing)


def mmr(query: Query, ranked: Candidates, limit: int) -> Ranking:
    """Return `limit` candidates of `hybrid` in the order of choice, by `scores["mmr"]`.

    Maximal marginal relevance of Carbonell and Goldstein (1998): each next passage has the largest
    `λ · relevance - (1 - λ) · likeness`. Relevance is the fused score scaled to 0 to 1; likeness is
    the greatest cosine to a passage chosen before.
    """
    if not ranked:
        return []
    vectors = query.vectors(ranked.passages)
    figures = ranked.raw_scores["fused"]
    if recency := counts_recency(query.settings):
        figures = recency.weighted(figures, ranked.raw_scores["recency"])
    relevance = scaled(figures)
    weight = query.settings.mmr_lambda
    likeness = np.zeros(len(ranked))
    left = np.ones(len(ranked), np.bool_)
    chosen: list[Candidate] = []
    for _ in range(min(limit, len(ranked))):
        gain = np.where(left, weight * relevance - (1 - weight) * likeness, -np.inf)
        at = int(np.argmax(gain))  # the first of equals: candidates are sorted by relevance
        left[at] = False
        likeness = np.maximum(likeness, dots(vectors, vectors[at]))
        candidate = ranked[at]
        chosen.append(candidate.scored(candidate.score, mmr=float(gain[at])))
    return chosen


async def rerank(
    reranker: Reranker,
    question: str,
    candidates: Sequence[DocumentMatch],
    settings: RetrievalDeclaration,
) -> list[DocumentMatch]:
    """Order candidates by the reranker's score, which becomes `score`; the raw scores stay.

    The reranker sees the same candidates for every `top_k`, so that a smaller one returns a prefix
    of a larger one. Candidates without a score are dropped.

    Raises:
        RerankerError: the reranker failed.
    """
    if not candidates:
        return []
    figures = await rerank_texts(reranker, question, [match.text for match in candidates])
    judged = []
    for match, figure in zip(candidates, figures, strict=True):
        if figure is not None:
            scores = {**match.scores, "rerank": figure}
            decisive = relevance(scores, settings)
            score = round(figure, _DECIMALS)
            judged.append(replace(match, score=score, relevance=decisive, scores=scores))
    return matches_by_recency(sorted(judged, key=lambda match: (-match.score, match.id)), settings)


def before_reranking(settings: RetrievalDeclaration) -> RetrievalDeclaration:
    """Return the settings of the search for candidates, which have no reranker's score yet."""
    return settings.model_copy(
        update={"strategy": "hybrid", "min_score": None, "min_score_on": None}
    )


def declared_reranker(search: Search, settings: RetrievalDeclaration) -> tuple[Reranker, int]:
    """Return the declared reranker and the number of passages it receives.

    Raises:
        UsageError: no reranker is declared.
    """
    declared, make = settings.rerank, search.kbs[0].reranker
    if declared is None:
        raise UsageError(
            f"{search.name} is searched with the strategy 'rerank', which needs a reranker; "
            "write: rerank: { class: 'package.module:Class' }",
            at=("strategy",),
        )
    if make is None:
        raise UsageError(f"{search.name} was created without rerankers")
    return make(declared), declared.candidates
