"""Remove near duplicates: the best passage stays, and names the documents of the others."""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.records import DocumentMatch

NEARLY = 0.9
"""The Jaccard similarity of three-word runs from which two passages count as duplicates."""

_WORD = re.compile(r"\w+")
# For ASCII text: lower-cases letters, and puts a space for all that `\w` does not match. Faster.
_ASCII = "".join(char.lower() if _WORD.match(char) else " " for char in map(chr, range(128)))
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
    kept: list[tuple[DocumentMatch, _Runs, list[str]]] = []
    telling: dict[int, list[int]] = {}
    for match in matches:
        runs = _runs(match.text)
        first = _first(runs)
        rivals = sorted({at for run in first for at in telling.get(run, ())})
        same = next((kept[at][2] for at in rivals if _alike(kept[at][1], runs)), None)
        if same is None:
            if len(kept) == most:
                break
            for run in first:
                telling.setdefault(run, []).append(len(kept))
            kept.append((match, runs, []))
        else:
            same.append(str(match.metadata.get("uri", "")))
    return [
        replace(match, metadata={**match.metadata, "also_in": sorted(set(also))}) if also else match
        for match, _, also in kept
    ]


def _runs(text: str) -> _Runs:
    """Return the hashes of all three-word runs; of the text itself if it has fewer words."""
    words = words_of(text)
    if len(words) < _RUN:
        return frozenset([hash(" ".join(text.split()))])
    return frozenset(map(hash, zip(*[words[at:] for at in range(_RUN)], strict=False)))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, as the regular expression `\\w+` finds them."""
    if text.isascii():
        return text.translate(_ASCII).split()
    return _WORD.findall(text.lower())


def _first(runs: _Runs) -> list[int]:
    """Return the runs, first in a global order, of which two similar passages share at least one.

    The prefix filter of Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in
    Data Cleaning" (2006): as many runs as one passage may lack of the other, plus one.
    """
    return sorted(runs)[: len(runs) - ceil(NEARLY * len(runs)) + 1]


def _alike(one: _Runs, other: _Runs) -> bool:
    if min(len(one), len(other)) < NEARLY * max(len(one), len(other)):
        return False
    common = len(one & other)
    return common >= NEARLY * (len(one) + len(other) - common)
