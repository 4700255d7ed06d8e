"""Diverse results: near duplicates are removed, and `max_per_document` spreads documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from lorebind_knowledge.text.splitting import words_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

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
    matches: Iterable[DocumentMatch], most: int | None = None
) -> list[DocumentMatch]:
    """Return the matches in their order, without near duplicates of an earlier match.

    The match that stays has the uris of its duplicates' documents in its metadata, as `also_in`.

    Args:
        matches: the best first.
        most: the maximum number of matches; later ones are not inspected. None means all.
    """
    unique: list[tuple[DocumentMatch, list[str]]] = []
    """Passages of which no two are near duplicates, and the uris of their duplicates' documents."""
    runs = cache(_runs)
    hashes: set[int] = set()
    for match in matches:
        words, known = words_of(match.text), len(hashes)
        hashes.update(map(hash, _triples(words)))
        count, new = max(len(words) - _RUN + 1, 0), len(hashes) - known
        # Most passages share too few runs with all others together to be similar to one of them.
        # Comparing hashes shows it faster; equal hashes of different runs only cost time.
        rivals = unique if count - new >= SIMILAR * count else ()
        alike = (uris for other, uris in rivals if _alike(runs(other.text), runs(match.text)))
        original = next(alike, None)
        if original is not None:
            original.append(str(match.metadata.get("uri", "")))
        elif len(unique) == most:
            break
        else:
            unique.append((match, []))
    return [
        replace(match, metadata={**match.metadata, "also_in": sorted(set(uris))}) if uris else match
        for match, uris in unique
    ]


def _runs(text: str) -> _Runs:
    """Return all three-word runs; the text itself if it has fewer words."""
    return set(_triples(words_of(text))) or {(" ".join(text.split()),)}


def _triples(words: list[str]) -> Iterator[tuple[str, str, str]]:
    return zip(words, words[1:], words[2:], strict=False)


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
