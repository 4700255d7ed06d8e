"""Passages that say the same: the best of them stays, and tells where the others are."""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.records import DocumentMatch

NEARLY = 0.9
"""The share of runs of three words in common, by Jaccard, from which two passages count as one."""

_WORD = re.compile(r"\w+")
# Of ASCII, letters in lower case and a space for all that `\w` does not match: the same, sooner.
_ASCII = "".join(char.lower() if _WORD.match(char) else " " for char in map(chr, range(128)))
_RUN = 3

_Runs: TypeAlias = "frozenset[int]"


def without_repeats(
    matches: Iterable[DocumentMatch], most: int | None = None
) -> list[DocumentMatch]:
    """The matches in their order, without those that nearly repeat an earlier one.

    What stays of several has the uris of the others' documents in its metadata, as `also_in`.

    Args:
        matches: the best first.
        most: how many are wanted; what comes after those is not looked at.
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
    """All runs of three words, by their hashes; of a text that has fewer, the text itself."""
    words = words_of(text)
    if len(words) < _RUN:
        return frozenset([hash(" ".join(text.split()))])
    return frozenset(map(hash, zip(*(words[at:] for at in range(_RUN)), strict=False)))


def words_of(text: str) -> list[str]:
    """Its words in lower case, by what a regular expression calls a word."""
    if text.isascii():
        return text.translate(_ASCII).split()
    return _WORD.findall(text.lower())


def _first(runs: _Runs) -> list[int]:
    """So many, in an order that all share, that two that are alike have one of these in common.

    The prefix filter of Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in
    Data Cleaning" (2006): all that one may lack of the other, and one more.
    """
    return sorted(runs)[: len(runs) - ceil(NEARLY * len(runs)) + 1]


def _alike(one: _Runs, other: _Runs) -> bool:
    if min(len(one), len(other)) < NEARLY * max(len(one), len(other)):
        return False
    common = len(one & other)
    return common >= NEARLY * (len(one) + len(other) - common)
