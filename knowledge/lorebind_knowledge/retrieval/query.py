"""A question to one or several indexes, each read at one moment; strategies rank its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

from lorebind_config.errors import StoreError
from lorebind_knowledge.cosines import best_first, score_of, scores_of
from lorebind_knowledge.index.view import NO_HITS
from lorebind_knowledge.records import ORDERS, DocumentMatch
from lorebind_knowledge.retrieval.judging import absolute, deciding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.index.view import Hits, View
    from lorebind_knowledge.records import Matrix, SparseVector, Vector

T = TypeVar("T")

_CHECKED: tuple[tuple[str, type, int | None], ...] = (
    *((name, str, None) for name in ("kb_id", "uri")),
    *((name, int, 0) for name in ("start", "end", "line_start", "line_end")),
)
"""Metadata of a passage with their types, and the values of those that are missing."""
_KEYS = tuple(key for key, _, _ in _CHECKED)
_USUAL = [kind for _, kind, _ in _CHECKED]
_DECIMALS = 9
"""Decimals of a score: more than the 6 of relative ones, so that different scores differ."""


PassageKey: TypeAlias = tuple[str, int, str]
"""The knowledge base of a passage, the passage's number there, and its id."""


class Candidate(NamedTuple):
    """A passage that was found, but whose text has not been read yet."""

    kb_id: str
    number: int
    id: str
    score: float
    """In [0, 1], higher is better."""
    scores: Mapping[str, float]
    """The raw scores behind the score."""

    @property
    def ordering(self) -> float:
        """See `DocumentMatch.ordering`."""
        return self.scores.get(ORDERS, self.score)

    def scored(self, score: float, **figures: float) -> Candidate:
        """Return a copy with another score and additional raw scores."""
        return Candidate(self.kb_id, self.number, self.id, score, {**self.scores, **figures})


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Sequence[Candidate]):
    """Candidates stored as columns. Items are created on access, since most are only compared."""

    passages: Sequence[PassageKey]
    scores: NDArray[np.float64]
    raw_scores: Mapping[str, NDArray[np.float64]]
    """The raw scores of all candidates, by name."""

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> Candidates: ...
    def __getitem__(self, at: int | slice) -> Candidate | Candidates:
        if isinstance(at, slice):
            return self.at(range(len(self))[at])
        figures = {name: figure.item(at) for name, figure in self.raw_scores.items()}
        return Candidate(*self.passages[at], self.scores.item(at), _figures(figures))

    def __len__(self) -> int:
        return len(self.passages)

    def __iter__(self) -> Iterator[Candidate]:
        columns = [figure.tolist() for figure in self.raw_scores.values()]
        rows = zip(self.passages, self.scores.tolist(), *columns, strict=True)
        for (kb_id, number, name), score, *figures in rows:
            scores = dict(zip(self.raw_scores, figures, strict=True))
            yield Candidate(kb_id, number, name, score, _figures(scores))

    def at(self, positions: Sequence[int]) -> Candidates:
        """Return the candidates at these positions, in the order of the positions."""
        chosen = np.array(positions, np.intp)
        figures = {name: figure[chosen] for name, figure in self.raw_scores.items()}
        return Candidates([self.passages[at] for at in positions], self.scores[chosen], figures)

    def order(self, figures: NDArray[np.float64]) -> list[int]:
        """Return the positions in the order of these values, best first, ties by id."""
        return best_first(figures, [name for _, _, name in self.passages])


Ranking: TypeAlias = "Sequence[Candidate]"
"""Passages in the order of a strategy; a shorter ranking is always a prefix of a longer one."""
Strategy: TypeAlias = "Callable[[Query, int], Candidates]"
"""Ranks the given number of passages, fewer if there are not enough, or all that it can rank."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its settings, and views of the indexes to search."""

    question: str
    vector: Vector | None
    """The question's vector, shape (dimension,); None if the indexes have no vectors."""
    settings: RetrievalDeclaration
    views: Mapping[str, View]
    """The views by the id of their knowledge base."""
    terms: SparseVector | None = None
    """The question's terms, if all indexes have terms of the same sparse embedder."""

    def nearest(self, k: int) -> Candidates:
        """Rank passages by cosine: the strategy `similarity`. `score` is the cosine, from 0 to 1.

        Returns the best `k`, ties by id.
        """
        assert self.vector is not None  # without vectors, this strategy is refused
        parts = []
        for kb_id, view in self.views.items():
            hits = view.nearest(self.vector, k, self.settings.filters)
            parts.append(_candidates(kb_id, hits.numbers, hits.ids, dense=hits.scores))
        candidates = _joined(parts)
        scores = scores_of(candidates.raw_scores["dense"])
        ranked = Candidates(candidates.passages, scores, candidates.raw_scores)
        return ranked if len(parts) == 1 else ranked.at(ranked.order(scores)[:k])

    def bm25_search(self, k: int) -> Candidates:
        """Rank passages by how well they match the question's words: the strategy `lexical`.

        Returns the `k` with the best BM25, each with its cosine too. `score` is relative to the
        best passage's BM25, see `weighed`.
        """
        depth, parts = self.settings.fusion.depth, []
        for kb_id, view in self.views.items():
            hits = view.bm25_search(self.question, max(k, depth), self.settings.filters)
            figures = {"lexical": hits.scores}
            if self.vector is not None:
                figures["dense"] = view.cosines(self.vector, hits.numbers)
            parts.append(_candidates(kb_id, hits.numbers, hits.ids, **figures))
        candidates = self._judged(_joined(parts))
        bm25 = candidates.raw_scores["lexical"]
        # Scaled by the same passages for every k, so that scores do not depend on k.
        return weighed(candidates, scores_of(bm25 / bm25.max(initial=0.0)), depth=depth)[:k]

    def hybrid_candidates(self, depth: int) -> Candidates:
        """Return the `depth` best passages by each signal, with the raw scores of all signals.

        The final scores are not set yet. A passage from only one of the lists gets its real raw
        score for the others as well, since a missing one would count as the worst.
        """
        where, parts = self.settings.filters, []
        for kb_id, view in self.views.items():
            hits, near = NO_HITS, 0
            if self.vector is not None:
                hits = view.nearest(self.vector, depth, where)
                near = len(hits.ids)
            hits = _with_others(hits, view.bm25_search(self.question, depth, where))
            if self.terms is not None:
                hits = _with_others(hits, view.terms_search(self.terms, depth, where))
            figures = {}
            if self.vector is not None:
                others = view.cosines(self.vector, hits.numbers[near:])
                figures["dense"] = np.concatenate([hits.scores[:near], others])
            figures["lexical"] = view.bm25_scores(self.question, hits.numbers)
            if self.settings.fusion.counts_documents:
                figures["document"] = view.document_scores(self.question, hits.numbers)
            if self.terms is not None:
                figures["terms"] = view.terms(self.terms).scores(hits.numbers)
            parts.append(_candidates(kb_id, hits.numbers, hits.ids, **figures))
        candidates = _joined(parts)
        # Together they have no more candidates than one index, so that figures do not depend on how
        # documents are divided among knowledge bases.
        if len(parts) > 1:
            best: set[int] = set()
            for name, figure in candidates.raw_scores.items():
                if name == "dense":
                    best.update(candidates.order(scores_of(figure))[:depth])
                elif name in ("lexical", "terms"):
                    best.update(at for at in candidates.order(figure)[:depth] if figure[at])
            candidates = candidates.at(sorted(best))
        return self._judged(candidates)

    def _judged(self, candidates: Candidates) -> Candidates:
        """Add the raw score `coverage`, which is the relevance where there are no cosines.

        It is the BM25 of a passage divided by that of a text with just the words of the question,
        at most 1. Of 2 questions, it rates that of the own collection above that of another one in
        .85 to .95 of all cases; a plain share of the words does in .83 to .94.
        """
        if self.vector is not None:
            return candidates
        full = max(view.words(self.question).full_passage() for view in self.views.values())
        coverage = np.minimum(candidates.raw_scores["lexical"] / (full or 1.0), 1.0)
        return replace(candidates, raw_scores={**candidates.raw_scores, "coverage": coverage})

    def full_scores(self) -> tuple[float, float]:
        """Return the figures `lexical` and `document` of texts with just the question's words.

        Each is the highest of all indexes; `document` is 0 if documents do not count.
        """
        words = [view.words(self.question) for view in self.views.values()]
        passage = max(each.full_passage() for each in words)
        if not self.settings.fusion.counts_documents:
            return passage, 0.0
        return passage, max(each.full_document() for each in words)

    def vectors(self, passages: Sequence[PassageKey]) -> Matrix:
        """Return the unit vectors of these passages, shape (passages, dimension)."""
        rows = self._of_each(passages, lambda view, numbers: view.vectors(numbers))
        return np.array(rows, np.float32)

    def documents(self, passages: Sequence[PassageKey]) -> list[tuple[str, int]]:
        """Return the key of each passage's document; passages of one document have the same."""
        numbers = self._of_each(passages, lambda view, numbers: view.documents(numbers))
        return [(passage[0], number) for passage, number in zip(passages, numbers, strict=True)]

    def values(self, key: str, passages: Sequence[PassageKey]) -> list[Any]:
        """Return the value of a metadata key of each passage; None if it has none."""
        return self._of_each(passages, lambda view, numbers: view.values(key, numbers))

    def best_relevance(self, candidates: Candidates, most: int | None = None) -> float:
        """Return the highest relevance of the first `most` candidates; 0 if there are none."""
        figures = deciding(candidates.raw_scores, self.settings)
        return score_of(figures[:most].max(initial=0.0))

    def passages(self, candidates: Sequence[Candidate]) -> list[DocumentMatch]:
        """Return the candidates with their texts and metadata."""
        candidates = list(candidates)
        chunks = self._of_each(
            [passage[:3] for passage in candidates],
            lambda view, numbers: map(view.chunks(numbers).__getitem__, numbers),
        )
        return list(map(self._passage, candidates, chunks))

    def read(self, candidates: Sequence[Candidate], at_once: int) -> Iterator[DocumentMatch]:
        """Yield the same passages, reading `at_once` at a time, for callers that may stop early."""
        waiting = iter(candidates)
        while batch := list(islice(waiting, at_once)):
            yield from self.passages(batch)

    def _of_each(
        self, passages: Sequence[PassageKey], read: Callable[[View, list[int]], Iterable[T]]
    ) -> list[T]:
        """Return what `read` gives for each passage, after one call for each index."""
        rows: dict[str, Iterator[T]] = {}
        for kb_id, view in self.views.items():
            if numbers := [number for owner, number, _ in passages if owner == kb_id]:
                rows[kb_id] = iter(read(view, numbers))
        return [next(rows[kb_id]) for kb_id, _, _ in passages]

    def _passage(self, candidate: Candidate, chunk: StoredChunk) -> DocumentMatch:
        about = chunk.metadata
        _check_metadata(candidate, about, self.views[candidate.kb_id].index.key.namespace)
        decisive = score_of(deciding(candidate.scores, self.settings))
        return DocumentMatch(
            candidate.id, candidate.score, decisive, candidate.scores, chunk.text, about
        )


def _figures(figures: dict[str, float]) -> dict[str, float]:
    """Remove the recency of a candidate that is too far down to move."""
    if ORDERS in figures and figures[ORDERS] != figures[ORDERS]:  # not a number
        del figures[ORDERS], figures["recency"]
    return figures


def _check_metadata(candidate: Candidate, metadata: Mapping[str, Any], owner: Namespace) -> None:
    """Raise `StoreError` if the source or the span of a passage has a wrong type."""
    if list(map(type, map(metadata.get, _KEYS))) == _USUAL:  # as that of all chunks of documents
        return
    for key, kind, default in _CHECKED:
        if not isinstance(metadata.get(key, default), kind):
            rebuild = owner.command("reindex")
            raise StoreError(
                f"the metadata of passage {candidate.id} of knowledge base {candidate.kb_id!r} are "
                f"damaged; rebuild its index with: {rebuild}",
                suggestions=[rebuild],
            )


def weighed(
    candidates: Candidates,
    figures: NDArray[np.float64],
    *,
    name: str | None = None,
    depth: int | None = None,
) -> Candidates:
    """Rank candidates by values that are relative to the best one, and set absolute scores.

    The best passage's score is the highest cosine of a candidate, or the highest `coverage` if
    there are no vectors; the others get a share of it in proportion to their values. So scores of
    different questions, knowledge bases and strategies can be compared, and no score is high if no
    candidate is near.

    Args:
        candidates: in any order; ties are broken by id.
        figures: the value of each candidate.
        name: the name under which the values become raw scores; None omits them.
        depth: how many of the best are searched for the highest one; None means all.
    """
    order = candidates.order(figures)
    scale = score_of(absolute(candidates.raw_scores)[order[:depth]].max(initial=0.0))
    best = figures.max(initial=0.0) or 1.0
    scores = np.round(figures / best * scale, _DECIMALS)
    raw_scores = candidates.raw_scores if name is None else {**candidates.raw_scores, name: figures}
    return Candidates(candidates.passages, scores, raw_scores).at(order)


def _with_others(hits: Hits, more: Hits) -> Hits:
    """Return hits, then those of the others that are not among them."""
    known = set(hits.numbers.tolist())
    others = more.at([at for at, number in enumerate(more.numbers.tolist()) if number not in known])
    return type(hits)(
        np.concatenate([hits.numbers, others.numbers]),
        [*hits.ids, *others.ids],
        np.concatenate([hits.scores, others.scores]),
    )


def _candidates(
    kb_id: str, numbers: NDArray[np.int64], ids: Sequence[str], **figures: NDArray[np.float64]
) -> Candidates:
    passages = list(zip(repeat(kb_id), numbers.tolist(), ids))
    return Candidates(passages, np.zeros(len(passages)), figures)


def _joined(parts: Sequence[Candidates]) -> Candidates:
    if len(parts) == 1:
        return parts[0]
    passages = [passage for part in parts for passage in part.passages]
    names = parts[0].raw_scores
    figures = {name: np.concatenate([part.raw_scores[name] for part in parts]) for name in names}
    return Candidates(passages, np.zeros(len(passages)), figures)
