"""Parts of documents in words, for messages: how many, and which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MOST_RANGES = 10


def parts_in_words(parts: Mapping[str, int]) -> str:
    """Return counts of parts as a list: `3 pages, 1 image`."""
    return ", ".join(f"{count:,} {kind}{'s' * (count != 1)}" for kind, count in parts.items())


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ranges, at most ten of them: `2, 4-6`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        first = runs.pop()[0] if runs and runs[-1][1] == number - 1 else number
        runs.append((first, number))
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join([*texts[:_MOST_RANGES], *(["…"] if len(texts) > _MOST_RANGES else [])])
