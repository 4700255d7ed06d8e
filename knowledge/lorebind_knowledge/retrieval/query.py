"""One question to one or several indexes, each at one moment: what strategies work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from lorebind_knowledge.cosines import score_of
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.records import DocumentMatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.index.view import Found, View
    from lorebind_knowledge.records import Matrix, Vector

_NAMES = ("kb_id", "uri")
_SPAN = ("start", "end", "line_start", "line_end")
_DECIMALS = 9
"""Of a score: more than the 6 of the relative figures, so that different ones stay different."""


class Candidate(NamedTuple):
    """A passage that was found and has not been read yet."""

    kb_id: str
    number: int
    id: str
    score: float
    """In [0, 1], higher is better."""
    scores: Mapping[str, float]
    """The raw figures behind the score."""

    def scored(self, score: float, **figures: float) -> Candidate:
        """The same with another score, and further figures beside those it has."""
        return Candidate(self.kb_id, self.number, self.id, score, {**self.scores, **figures})

    @property
    def near(self) -> float:
        """Its cosine, clipped to [0, 1]."""
        return score_of(self.scores.get("dense", 0.0))


Ranking: TypeAlias = "list[Candidate]"
"""Passages in the order that a strategy gives them; fewer are always a prefix of more."""
Strategy: TypeAlias = "Callable[[Query, int], Ranking]"
"""Ranks so many passages, fewer where there are not so many, or at once all that it ever will."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its settings, and views of the indexes that are asked."""

    question: str
    vector: Vector
    """The question's, shape (dimension,)."""
    settings: RetrievalDeclaration
    views: Mapping[str, View]
    """By the id of the knowledge base."""

    def nearest(self, k: int) -> Ranking:
        """The nearest passages by cosine, best first, ties by id."""
        found = [
            _candidate(kb_id, one, score_of(one.figure), dense=one.figure)
            for kb_id, view in self.views.items()
            for one in view.nearest(self.vector, k, self.settings.filters)
        ]
        return in_order(found)[:k]

    def worded(self, k: int) -> Ranking:
        """The passages that match the words best by BM25, each with its cosine too.

        `score` is the share of the best passage's BM25, see `weighed`.
        """
        found = []
        depth = self.settings.fusion.depth
        for kb_id, view in self.views.items():
            best, _ = view.worded(self.question, max(k, depth), self.settings.filters)
            near = view.cosines(self.vector, [one.number for one in best])
            found += [
                _candidate(kb_id, one, 0.0, lexical=one.figure, dense=near[one.number])
                for one in best
            ]
        most = max((one.scores["lexical"] for one in found), default=1.0)
        shares = [score_of(one.scores["lexical"] / most) for one in found]
        # By the same passages whatever k is, so that fewer have the scores of more.
        return weighed(found, shares, depth=depth)[:k]

    def both(self, depth: int) -> list[Candidate]:
        """The best by vectors and the best by words, so many of each, with both figures; no scores.

        A passage that only one of the lists holds gets its real figure of the other too: a figure
        that is merely missing would count as the worst.
        """
        found = [one for kb_id in self.views for one in self._both(kb_id, depth)]
        if len(self.views) > 1:
            near = sorted(found, key=lambda one: (-one.near, one.id))[:depth]
            words = [one for one in found if one.scores["lexical"]]
            words.sort(key=lambda one: (-one.scores["lexical"], one.id))
            best = {(one.kb_id, one.number) for one in [*near, *words[:depth]]}
            found = [one for one in found if (one.kb_id, one.number) in best]
        return found

    def vectors(self, candidates: Sequence[Candidate]) -> Matrix:
        """Their unit vectors, shape (candidates, dimension)."""
        known: dict[tuple[str, int], Any] = {}
        for kb_id, numbers in _by_kb(candidates).items():
            given = self.views[kb_id].vectors(numbers)
            known |= {(kb_id, number): vector for number, vector in given.items()}
        return np.stack([known[one.kb_id, one.number] for one in candidates])

    def documents(self, candidates: Sequence[Candidate]) -> list[tuple[str, int]]:
        """The documents that they belong to: the same for two of one document."""
        known: dict[tuple[str, int], int] = {}
        for kb_id, numbers in _by_kb(candidates).items():
            given = self.views[kb_id].documents(numbers)
            known |= {(kb_id, number): document for number, document in given.items()}
        return [(one.kb_id, known[one.kb_id, one.number]) for one in candidates]

    def passages(self, candidates: Sequence[Candidate]) -> list[DocumentMatch]:
        """The candidates with their texts and metadata."""
        chunks: dict[tuple[str, int], StoredChunk] = {}
        for kb_id, numbers in _by_kb(candidates).items():
            given = self.views[kb_id].chunks(numbers)
            chunks |= {(kb_id, number): chunk for number, chunk in given.items()}
        return [self._passage(one, chunks[one.kb_id, one.number]) for one in candidates]

    def read(self, candidates: Sequence[Candidate], at_once: int) -> Iterator[DocumentMatch]:
        """The same one after the other, some read at a time, for who may not want all."""
        for start in range(0, len(candidates), at_once):
            yield from self.passages(candidates[start : start + at_once])

    def _both(self, kb_id: str, depth: int) -> list[Candidate]:
        view, where = self.views[kb_id], self.settings.filters
        nearest = view.nearest(self.vector, depth, where)
        names = {one.number: one.id for one in nearest}
        worded, words = view.worded(self.question, depth, where, also=list(names))
        near = {one.number: one.figure for one in nearest}
        names |= {one.number: one.id for one in worded}
        near |= view.cosines(self.vector, [n for n in names if n not in near])
        figures = {n: {"dense": near[n], "lexical": words.get(n, 0.0)} for n in names}
        if self.settings.fusion.counts_documents:
            wholes = view.document_figures(self.question, list(names))
            for number, known in figures.items():
                known["document"] = wholes.get(number, 0.0)
        return [Candidate(kb_id, n, name, 0.0, figures[n]) for n, name in names.items()]

    def _passage(self, one: Candidate, chunk: StoredChunk) -> DocumentMatch:
        about = chunk.metadata
        named = all(isinstance(about.get(key), str) for key in _NAMES)
        if not named or not all(isinstance(about.get(key, 0), int) for key in _SPAN):
            raise StoreError(
                f"the metadata of passage {one.id} of knowledge base {one.kb_id!r} are damaged; "
                f"build its index anew with: lorebind knowledge reindex {one.kb_id}"
            )
        return DocumentMatch(one.id, one.score, one.scores, chunk.text, about)


def in_order(candidates: Iterable[Candidate]) -> Ranking:
    """Best first, ties by id."""
    return sorted(candidates, key=lambda one: (-one.score, one.id))


def weighed(
    candidates: Iterable[Candidate],
    figures: Sequence[float],
    *,
    name: str | None = None,
    depth: int | None = None,
) -> Ranking:
    """A ranking by figures that are relative to its own best, with scores that are not.

    The best passage scores the cosine of the nearest candidate, and the others their share of that.
    So scores of several questions, knowledge bases and strategies can be compared, and where
    nothing is near nothing scores high.

    Args:
        candidates: in any order; of equal figures the first by id comes first.
        figures: of each.
        name: under which they are put into `scores`; None leaves them out.
        depth: the nearest is looked for among so many of the best; None means all.
    """
    pairs = zip(figures, candidates, strict=True)
    order = sorted(pairs, key=lambda pair: (-pair[0], pair[1].id))
    nearest = max((one.scores.get("dense", 0.0) for _, one in order[:depth]), default=0.0)
    best = max(figures, default=0.0) or 1.0
    scale = score_of(nearest)
    return [
        one.scored(
            round(figure / best * scale, _DECIMALS), **({} if name is None else {name: figure})
        )
        for figure, one in order
    ]


def _candidate(kb_id: str, found: Found, score: float, **figures: float) -> Candidate:
    return Candidate(kb_id, found.number, found.id, score, figures)


def _by_kb(candidates: Iterable[Candidate]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for one in candidates:
        numbers.setdefault(one.kb_id, []).append(one.number)
    return numbers
