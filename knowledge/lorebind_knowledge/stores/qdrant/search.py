"""The records nearest to a vector: Qdrant nominates, and the exact cosine decides.

A server's figures are float32, and it breaks ties as it likes. So enough points are nominated that
whatever may belong to the answer is among them; their vectors are then compared in float64, as
every store of Lorebind does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.records import DocumentMatch
from lorebind_knowledge.stores.checks import named
from lorebind_knowledge.stores.matrix import ExactMatrix, normalised, score_of
from lorebind_knowledge.stores.qdrant.connection import qdrant
from lorebind_knowledge.stores.qdrant.points import OURS, dense_of, prefix_of, searched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.filters import Predicate
    from lorebind_knowledge.records import SearchOptions, Vector
    from lorebind_knowledge.stores.qdrant.heads import Head
    from lorebind_knowledge.stores.qdrant.points import Points

# More than float32 loses in a product of unit vectors, and more than the last decimal of a score.
_MARGIN = 1e-5
_SPARE = 8
_GROWTH = 4
_MOST_COMPARED = 256
"""Nominees that tie beyond it are cut by the server's own figure, and by id."""


@dataclass(frozen=True, slots=True)
class Nominee:
    """A point that may belong to the answer."""

    point: str
    id: str
    figure: float
    """What the server says that its cosine is."""


class NearestSearch:
    """One search of one index at one version."""

    def __init__(
        self, points: Points, head: Head, options: SearchOptions, allows: Predicate
    ) -> None:
        self._points, self._head, self._options = points, head, options
        self._allows = allows
        self._conditions, precise = searched(head, options)
        self._fields = ["id", "directed"] if precise else ["id", "directed", "metadata"]

    def run(self, vector: Vector, *, exact: bool) -> list[DocumentMatch]:
        """The matches, best first.

        Args:
            vector: any length, zero included.
            exact: compare with every vector rather than ask the approximate index.
        """
        top_k = self._options.top_k
        direction = normalised(np.asarray(vector, np.float64))
        nominees: list[Nominee] = []
        complete = False
        if direction.any():
            nominees, complete = self._nominated(direction, exact=exact)
        if not complete:
            above = [nominee for nominee in nominees if score_of(nominee.figure) > 0]
            if len(above) < top_k:
                nominees = above + self._first_by_id({nominee.point for nominee in above})
        return self._ranked(direction, _foremost(nominees, top_k))

    def _nominated(self, direction: Any, *, exact: bool) -> tuple[list[Nominee], bool]:
        """All that may be among the best, and whether they are all that pass the filter."""
        top_k, min_score = self._options.top_k, self._options.min_score
        query = direction.astype(np.float32).tolist()
        parameters: dict[str, Any] = {"with_payload": [f"{OURS}.{name}" for name in self._fields]}
        if not self._points.connection.is_local:
            models = qdrant("qdrant_client.models")
            parameters["search_params"] = models.SearchParams(exact=exact)
        limit = top_k + _SPARE
        while True:
            found = self._points.query(query, self._conditions, limit, **parameters)
            nominees = sorted(self._passing(found), key=lambda nominee: -nominee.figure)
            if len(found) < limit:
                everything = not self._options.where and self._options.ids is None
                if exact and everything and len(found) < self._head.records:
                    raise self._lost(len(found))
                return nominees, True
            lowest = self._cosine(found[-1].score)
            enough = len(nominees) >= top_k and nominees[top_k - 1].figure > lowest + _MARGIN
            hopeless = min_score is not None and 0 < min_score > lowest + _MARGIN
            if enough or hopeless or lowest <= 0:
                return nominees, hopeless
            limit *= _GROWTH

    def _first_by_id(self, above: set[str]) -> list[Nominee]:
        """The first by id among those that score 0, and with them whatever sorts alike."""
        wanted = self._options.top_k - len(above)
        models = qdrant("qdrant_client.models")
        condition = models.Filter(must=self._conditions)
        size = self._options.top_k + _SPARE
        nominees: list[Nominee] = []
        for point in self._points.scroll(condition, self._fields, size):
            full = len(nominees) >= wanted
            if full and prefix_of(point.id) != prefix_of(nominees[wanted - 1].point):
                break
            if point.id not in above:
                nominees += self._passing([point], figure=0.0)
        return sorted(nominees, key=lambda nominee: nominee.id)[:wanted]

    def _passing(self, found: Iterable[Any], figure: float | None = None) -> Iterable[Nominee]:
        for point in found:
            ours = point.payload[OURS]
            if "metadata" not in ours or self._allows(json.loads(ours["metadata"])):
                cosine = self._cosine(point.score) if figure is None else figure
                # By distance, a vector of length 0 is as near as one at 60 degrees.
                yield Nominee(point.id, ours["id"], cosine if ours["directed"] else 0.0)

    def _cosine(self, score: float) -> float:
        """Of unit vectors, from what the collection's metric gives."""
        return 1 - score * score / 2 if self._head.metric == "l2" else score

    def _ranked(self, direction: Any, nominees: list[Nominee]) -> list[DocumentMatch]:
        rows = {nominee.point: row for row, nominee in enumerate(nominees)}
        found = {}
        for point in self._points.retrieve(list(rows), with_vectors=True):
            found[rows[point.id]] = point
        matrix = ExactMatrix.empty(self._head.dimension).replaced(
            ((nominees[row].id, row) for row in found),
            lambda wanted: ((row, dense_of(found[row].vector)) for row in wanted),
        )
        best = matrix.top(direction, self._options.top_k, self._options.min_score)
        return [match_of(found[row], score_of(cosine), {"dense": cosine}) for row, cosine in best]

    def _lost(self, found: int) -> StoreError:
        return StoreError(
            f"{self._points.connection}: {named(self._options.index)} should hold "
            f"{self._head.records} records, and collection {self._points.collection!r} has "
            f"{found} of them; restore the collection, or build the index anew with: "
            "lorebind knowledge ingest --strategy replace"
        )


def match_of(point: Any, score: float, scores: dict[str, float]) -> DocumentMatch:
    ours = point.payload[OURS]
    text, metadata = point.payload["page_content"], json.loads(ours["metadata"])
    return DocumentMatch(ours["id"], score, scores, text, metadata, ours["generation"])


def _foremost(nominees: list[Nominee], top_k: int) -> list[Nominee]:
    """Those that may be among the best, without those that surely are not."""
    if len(nominees) <= top_k:
        return nominees
    nominees = sorted(nominees, key=lambda nominee: (-score_of(nominee.figure), nominee.id))
    floor = nominees[top_k - 1].figure - _MARGIN
    near = [nominee for nominee in nominees if nominee.figure >= floor or floor <= 0]
    return near[: max(top_k, _MOST_COMPARED)]
