"""One question to one or several indexes, each at one moment: what strategies work on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

import numpy as np

from lorebind_knowledge.cosines import best_first, score_of, scores_of
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.records import DocumentMatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.records import Matrix, Vector

_NAMES = ("kb_id", "uri")
_SPAN = ("start", "end", "line_start", "line_end")
_DECIMALS = 9
"""Of a score: more than the 6 of the relative figures, so that different ones stay different."""


Place: TypeAlias = tuple[str, int, str]
"""Of a passage its knowledge base, its number there, and its id."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Sequence[Candidate]):
    """Candidates as columns: most are only compared, and each is made when it is looked at."""

    passages: Sequence[Place]
    scores: NDArray[np.float64]
    figures: Mapping[str, NDArray[np.float64]]
    """By name, each of all candidates."""

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> Candidates: ...
    def __getitem__(self, at: int | slice) -> Candidate | Candidates:
        if isinstance(at, slice):
            return self.at(range(len(self))[at])
        figures = {name: figure.item(at) for name, figure in self.figures.items()}
        return Candidate(*self.passages[at], self.scores.item(at), figures)

    def __len__(self) -> int:
        return len(self.passages)

    def at(self, positions: Sequence[int]) -> Candidates:
        """Those at some positions, in their order."""
        wanted = np.array(positions, np.intp)
        figures = {name: figure[wanted] for name, figure in self.figures.items()}
        return Candidates([self.passages[at] for at in positions], self.scores[wanted], figures)

    def order(self, figures: NDArray[np.float64]) -> list[int]:
        """The positions in the order of some figures, best first, ties by id."""
        return best_first(figures, [name for _, _, name in self.passages])


Ranking: TypeAlias = "Sequence[Candidate]"
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
        found = _joined([self._nearest(kb_id, k) for kb_id in self.views])
        scores = scores_of(found.figures["dense"])
        return replace(found, scores=scores).at(found.order(scores)[:k])

    def worded(self, k: int) -> Ranking:
        """The passages that match the words best by BM25, each with its cosine too.

        `score` is the share of the best passage's BM25, see `weighed`.
        """
        depth = self.settings.fusion.depth
        found = _joined([self._worded(kb_id, max(k, depth)) for kb_id in self.views])
        figures = found.figures["lexical"]
        # By the same passages whatever k is, so that fewer have the scores of more.
        return weighed(found, scores_of(figures / figures.max(initial=0.0)), depth=depth)[:k]

    def both(self, depth: int) -> Candidates:
        """The best by vectors and the best by words, so many of each, with both figures; no scores.

        A passage that only one of the lists holds gets its real figure of the other too: a figure
        that is merely missing would count as the worst.
        """
        found = _joined([self._both(kb_id, depth) for kb_id in self.views])
        if len(self.views) > 1:
            near, words = scores_of(found.figures["dense"]), found.figures["lexical"]
            worded = [at for at in found.order(words)[:depth] if words[at]]
            found = found.at(sorted({*found.order(near)[:depth], *worded}))
        return found

    def vectors(self, passages: Sequence[Place]) -> Matrix:
        """Their unit vectors, shape (passages, dimension)."""
        known: dict[tuple[str, int], Any] = {}
        for kb_id, numbers in _by_kb(passages).items():
            given = self.views[kb_id].vectors(numbers)
            known |= {(kb_id, number): vector for number, vector in given.items()}
        return np.array([known[kb_id, number] for kb_id, number, _ in passages])

    def documents(self, passages: Sequence[Place]) -> list[tuple[str, int]]:
        """The documents that they belong to: the same for two of one document."""
        known: dict[tuple[str, int], int] = {}
        for kb_id, numbers in _by_kb(passages).items():
            given = self.views[kb_id].documents(numbers)
            known |= {(kb_id, number): document for number, document in given.items()}
        return [(kb_id, known[kb_id, number]) for kb_id, number, _ in passages]

    def passages(self, candidates: Sequence[Candidate]) -> list[DocumentMatch]:
        """The candidates with their texts and metadata."""
        candidates = list(candidates)
        chunks: dict[tuple[str, int], StoredChunk] = {}
        for kb_id, numbers in _by_kb([one[:3] for one in candidates]).items():
            given = self.views[kb_id].chunks(numbers)
            chunks |= {(kb_id, number): chunk for number, chunk in given.items()}
        return [self._passage(one, chunks[one.kb_id, one.number]) for one in candidates]

    def read(self, candidates: Sequence[Candidate], at_once: int) -> Iterator[DocumentMatch]:
        """The same one after the other, some read at a time, for who may not want all."""
        for start in range(0, len(candidates), at_once):
            yield from self.passages(candidates[start : start + at_once])

    def _nearest(self, kb_id: str, k: int) -> Candidates:
        found = self.views[kb_id].nearest(self.vector, k, self.settings.filters)
        return _candidates(kb_id, found.numbers, found.ids, dense=found.figures)

    def _worded(self, kb_id: str, k: int) -> Candidates:
        view = self.views[kb_id]
        numbers, ids, figures = view.worded(self.question, k, self.settings.filters)
        dense = view.cosines(self.vector, numbers)
        return _candidates(kb_id, numbers, ids, lexical=figures, dense=dense)

    def _both(self, kb_id: str, depth: int) -> Candidates:
        view, where = self.views[kb_id], self.settings.filters
        nearest = view.nearest(self.vector, depth, where)
        worded = view.worded(self.question, depth, where)
        near = set(nearest.numbers.tolist())
        more = [at for at, number in enumerate(worded.numbers.tolist()) if number not in near]
        others = worded.at(more)
        numbers = np.concatenate([nearest.numbers, others.numbers])
        figures = {
            "dense": np.concatenate([nearest.figures, view.cosines(self.vector, others.numbers)]),
            "lexical": view.word_figures(self.question, numbers),
        }
        if self.settings.fusion.counts_documents:
            figures["document"] = view.document_figures(self.question, numbers)
        return _candidates(kb_id, numbers, nearest.ids + others.ids, **figures)

    def _passage(self, one: Candidate, chunk: StoredChunk) -> DocumentMatch:
        about = chunk.metadata
        named = all(isinstance(about.get(key), str) for key in _NAMES)
        if not named or not all(isinstance(about.get(key, 0), int) for key in _SPAN):
            raise StoreError(
                f"the metadata of passage {one.id} of knowledge base {one.kb_id!r} are damaged; "
                f"build its index anew with: lorebind knowledge reindex {one.kb_id}"
            )
        return DocumentMatch(one.id, one.score, one.scores, chunk.text, about)


def weighed(
    candidates: Candidates,
    figures: NDArray[np.float64],
    *,
    name: str | None = None,
    depth: int | None = None,
) -> Candidates:
    """A ranking by figures that are relative to its own best, with scores that are not.

    The best passage scores the cosine of the nearest candidate, and the others their share of that.
    So scores of several questions, knowledge bases and strategies can be compared, and where
    nothing is near nothing scores high.

    Args:
        candidates: in any order; of equal figures the first by id comes first.
        figures: of each.
        name: under which they are put among its figures; None leaves them out.
        depth: the nearest is looked for among so many of the best; None means all.
    """
    order = candidates.order(figures)
    scale = score_of(candidates.figures["dense"][order[:depth]].max(initial=0.0))
    best = figures.max(initial=0.0) or 1.0
    scores = np.round(figures / best * scale, _DECIMALS)
    known = candidates.figures if name is None else {**candidates.figures, name: figures}
    return Candidates(candidates.passages, scores, known).at(order)


def _candidates(
    kb_id: str, numbers: NDArray[np.int64], ids: Sequence[str], **figures: NDArray[np.float64]
) -> Candidates:
    passages = list(zip(repeat(kb_id), numbers.tolist(), ids))
    return Candidates(passages, np.zeros(len(passages)), figures)


def _joined(parts: Sequence[Candidates]) -> Candidates:
    passages = [passage for part in parts for passage in part.passages]
    names = parts[0].figures
    figures = {name: np.concatenate([part.figures[name] for part in parts]) for name in names}
    return Candidates(passages, np.zeros(len(passages)), figures)


def _by_kb(passages: Iterable[Place]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for kb_id, number, _ in passages:
        numbers.setdefault(kb_id, []).append(number)
    return numbers
