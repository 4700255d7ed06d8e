"""Remove near duplicates: the best passage stays, and names the documents of the others."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from lorebind_knowledge.text.words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.records import DocumentMatch

SIMILAR = 0.9
"""The Jaccard similarity of three-word runs from which two passages count as duplicates."""

_RUN = 3

_Runs: TypeAlias = "frozenset[int]"


def without_repeats(
    matches: Iterable[DocumentMatch], most: int | None = None
) -> list[DocumentMatch]:
    """Return the matches in their order, without near duplicates of an earlier match.

    The match that stays has the uris of its duplicates' documents in its metadata, as `also_in`.

    Args:
        matches: the best first.
        most: the number of wanted matches; later ones are not inspected. None means all.
    """
    unique = _Unique()
    for match in matches:
        runs = _runs(match.text)
        original = unique.similar_to(runs)
        if original is not None:
            original.append(str(match.metadata.get("uri", "")))
        elif len(unique.matches) == most:
            break
        else:
            unique.add(match, runs)
    return [
        replace(match, metadata={**match.metadata, "also_in": sorted(set(uris))}) if uris else match
        for match, uris in zip(unique.matches, unique.duplicates, strict=True)
    ]


class _Unique:
    """Passages of which no two are near duplicates."""

    def __init__(self) -> None:
        self.matches: list[DocumentMatch] = []
        self.duplicates: list[list[str]] = []
        """The uris of the documents of each passage's duplicates."""
        self._runs: list[_Runs] = []
        self._all_runs: set[int] = set()
        self._by_run: dict[int, list[int]] = {}
        """The positions of passages by those of their runs that are first, see `_first`."""
        self._indexed = 0
        """The number of passages in `_by_run`."""

    def add(self, match: DocumentMatch, runs: _Runs) -> None:
        self.matches.append(match)
        self.duplicates.append([])
        self._runs.append(runs)
        self._all_runs |= runs

    def similar_to(self, runs: _Runs) -> list[str] | None:
        """Return the duplicates of the first passage that is similar to one with these runs."""
        # Most passages share too few runs with all others together to be similar to one of them.
        if len(self._all_runs & runs) < SIMILAR * len(runs):
            return None
        for position in range(self._indexed, len(self._runs)):
            for run in _first(self._runs[position]):
                self._by_run.setdefault(run, []).append(position)
        self._indexed = len(self._runs)
        rivals = {position for run in _first(runs) for position in self._by_run.get(run, ())}
        for position in sorted(rivals):
            if _alike(self._runs[position], runs):
                return self.duplicates[position]
        return None


def _runs(text: str) -> _Runs:
    """Return the hashes of all three-word runs; of the text itself if it has fewer words."""
    words = words_of(text)
    if len(words) < _RUN:
        return frozenset([hash(" ".join(text.split()))])
    return frozenset(map(hash, zip(*[words[at:] for at in range(_RUN)], strict=False)))


def _first(runs: _Runs) -> list[int]:
    """Return the runs, first in a global order, of which two similar passages share at least one.

    The prefix filter of Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in
    Data Cleaning" (2006): as many runs as one passage may lack of the other, plus one.
    """
    return sorted(runs)[: len(runs) - ceil(SIMILAR * len(runs)) + 1]


def _alike(runs: _Runs, other_runs: _Runs) -> bool:
    if min(len(runs), len(other_runs)) < SIMILAR * max(len(runs), len(other_runs)):
        return False
    common = len(runs & other_runs)
    return common >= SIMILAR * (len(runs) + len(other_runs) - common)
