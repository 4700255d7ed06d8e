"""Diverse results: near duplicates are removed, and `max_per_document` spreads documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from lorebind_knowledge.text.splitting import words_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.retrieval.query import Candidate

SIMILAR = 0.9
"""The Jaccard similarity of three-word runs from which two passages count as duplicates."""

_RUN = 3

_Runs: TypeAlias = "set[tuple[str, ...]]"


LOOKED_THROUGH = 100
"""Number of passages at the start of a ranking that may move. It is the same for every `top_k`, so
that a smaller `top_k` returns a prefix of a larger one."""


COMPARABLE = 0.9
"""The share of a passage's score from which another passage scores nearly as high. With 0.8, fewer
relevant passages are among the first five."""


_Scored = TypeVar("_Scored", "Candidate", "DocumentMatch")


def without_repeats(
    matches: Iterable[DocumentMatch], limit: int | None = None
) -> list[DocumentMatch]:
    """Return the matches in their order, without near duplicates of an earlier match.

    The match that stays has the uris of its duplicates' documents in its metadata, as `also_in`.

    Args:
        matches: the best first.
        limit: the maximum number of matches; later ones are not inspected. None means all.
    """
    unique: list[tuple[DocumentMatch, list[str], list[str]]] = []
    """Passages of which no two are near duplicates, each with its words and the uris of the
    documents of its duplicates."""
    runs = cache(_runs)
    seen: set[str] = set()
    for match in matches:
        words, before = words_of(match.text), len(seen)
        seen.update(words)
        # A run has few words. So a passage with more words that another one lacks has too many
        # runs that the other one lacks. Comparing words takes far less time than comparing runs.
        most = _RUN * (1 - SIMILAR) * len(words) + 1
        alike = (
            uris
            for other, its_words, uris in (unique if len(seen) - before <= most else ())
            if len(set(words).difference(its_words)) <= most
            and _alike(runs(other.text), runs(match.text))
        )
        original = next(alike, None)
        if original is not None:
            original.append(str(match.metadata.get("uri", "")))
        elif len(unique) == limit:
            break
        else:
            unique.append((match, words, []))
    return [
        replace(match, metadata={**match.metadata, "also_in": sorted(set(uris))}) if uris else match
        for match, _, uris in unique
    ]


def _runs(text: str) -> _Runs:
    """Return all three-word runs; the text itself if it has fewer words."""
    words = words_of(text)
    return set(zip(words, words[1:], words[2:], strict=False)) or {(" ".join(text.split()),)}


def _alike(runs: _Runs, other_runs: _Runs) -> bool:
    if min(len(runs), len(other_runs)) < SIMILAR * max(len(runs), len(other_runs)):
        return False
    common = len(runs & other_runs)
    return common >= SIMILAR * (len(runs) + len(other_runs) - common)


def spread(
    ranked: Sequence[_Scored], documents: Sequence[Hashable], most: int | None
) -> list[_Scored]:
    """Reorder passages: those of a document that already has `most` follow others that are near.

    The best passage stays first. The order does not change if all other documents score far less,
    or if there are none.

    Args:
        ranked: best first.
        documents: the document of each.
        most: the maximum per document; None means no limit.
    """
    if most is None:
        return list(ranked)
    left = list(zip(ranked, documents, strict=True))
    taken: Counter[Hashable] = Counter()
    order: list[_Scored] = []
    while left:
        at = 0
        best, document = left[0]
        if taken[document] >= most:
            others = (n for n, (_, other) in enumerate(left) if taken[other] < most)
            first = next(others, 0)
            if left[first][0].ordering >= COMPARABLE * best.ordering:
                at = first
        chosen, document = left.pop(at)
        taken[document] += 1
        order.append(chosen)
    return order


def spread_matches(ranked: Sequence[DocumentMatch], most: int | None) -> list[DocumentMatch]:
    """Spread passages that have been read. A passage without a uri is its own document."""
    documents = [
        (match.metadata.get("kb_id"), match.metadata.get("uri") or match.id) for match in ranked
    ]
    return spread(ranked, documents, most)
