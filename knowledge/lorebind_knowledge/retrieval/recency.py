"""New before old: the recency of passages, and rankings in which it counts.

A passage is ordered by its score times `1 - weight + weight * recency`. `recency` halves with each
half-life, as in the exponential decay of search engines. A product, so that no passage gains from
its age alone: a sum would put new passages that do not match before old ones that do.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lorebind_config.dates import is_date, seconds_of
from lorebind_config.declarations.newest import UNDATED
from lorebind_knowledge.records import ORDERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.declarations.newest import RecencyDeclaration
    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.retrieval.query import Candidates, Query


def counts_recency(settings: RetrievalDeclaration) -> RecencyDeclaration | None:
    """Return the settings of recency if it counts."""
    declared = settings.recency
    return declared if declared is not None and declared.weight else None


def by_recency(query: Query, ranked: Candidates, most: int | None = None) -> Candidates:
    """Return candidates in the order in which recency counts, with the raw score `recency`.

    The raw score `recent` is the figure that orders them; `score` does not change.

    Args:
        query: the query.
        ranked: the candidates, best first.
        most: the number of first candidates that may move; None means all.
    """
    declared = counts_recency(query.settings)
    if declared is None or not ranked:
        return ranked
    first, now = ranked[:most], time.time()
    dates = query.values(declared.field, first.passages)
    recency = np.array([_recency(date, declared, now) for date in dates])
    figures = declared.weighted(first.scores, recency)
    rest = np.full(len(ranked) - len(first), np.nan)
    raw_scores = {
        **ranked.raw_scores,
        "recency": np.concatenate([recency, rest]),
        ORDERS: np.concatenate([figures, rest]),
    }
    # Stable, so that equal passages stay in the order of the strategy.
    order = np.argsort(-figures, kind="stable").tolist()
    return replace(ranked, raw_scores=raw_scores).at([*order, *range(len(first), len(ranked))])


def matches_by_recency(
    matches: Sequence[DocumentMatch], settings: RetrievalDeclaration
) -> list[DocumentMatch]:
    """Return passages that have been read in the order in which recency counts."""
    declared = counts_recency(settings)
    if declared is None:
        return list(matches)
    now = time.time()
    dated: list[DocumentMatch] = []
    for match in matches:
        recency = _recency(match.metadata.get(declared.field), declared, now)
        figure = declared.weighted(match.score, recency)
        scores = {**match.scores, "recency": recency, ORDERS: figure}
        dated.append(replace(match, scores=scores))
    return sorted(dated, key=lambda match: -match.ordering)


def fields_of(settings: RetrievalDeclaration) -> dict[str, list[str]]:
    """Return the keys of the metadata that the settings `recency` and `versions` name."""
    recency, versions = counts_recency(settings), settings.versions
    fields = {} if recency is None else {"recency": [recency.field]}
    if versions is not None and versions.newest:
        fields["versions"] = [*versions.by, versions.field]
    return fields


def _recency(date: object, declared: RecencyDeclaration, now: float) -> float:
    if not (isinstance(date, str) and is_date(date)):
        return UNDATED
    try:
        return declared.recency_at(now - seconds_of(date))
    except ValueError:  # a text in the form of a date, such as February 30
        return UNDATED
