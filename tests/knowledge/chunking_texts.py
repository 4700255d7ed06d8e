"""Texts that are hard to split, for the tests of all chunkers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from lorebind_knowledge.chunking.base import Chunker
from lorebind_knowledge.chunking.rulers import count_tokens
from lorebind_knowledge.chunking.windows import is_border

MEASURES: dict[str, Callable[[str], int]] = {"characters": len, "tokens": count_tokens}

_AROUND = re.compile(r"^[\W_]+|[\W_]+$")
_PIECES = st.sampled_from(
    [
        "word",
        "a",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "   ",
        "\t",
        "東京都",
        "。",
        "e\u0301",
        "🙂",
        "👩\u200d👩\u200d👧",
        "🇩🇪",
        "x" * 90,
        "\u3000",
        "\u00a0",
        "longer words here. And a sentence! ",
        "# Heading\n",
        "\nTitle\n---\n",
        "\n```\ncode\n```\n",
        "\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "\n- item\n",
        '{"a": [1, 2, "b, c"], "d": {"e": null}}\n',
        "[1,[2,[3,",
        '"',
        "\ndef f(x):\n    return x\n",
        "\nclass A:\n",
    ]
)
TEXTS = (
    st.lists(_PIECES, max_size=60).map("".join)
    | st.text(max_size=300)
    | st.text(alphabet="ab \n", max_size=400)
)
GIANTS = {
    "letters": "x" * 200_000,
    "ideographs": "漢" * 40_000,
    "accents": "e\u0301" * 20_000,
    "families": "👩\u200d👩\u200d👧" * 2_000,
    "flags": "🇩🇪" * 5_000,
    "one pile of accents": "e" + "\u0301" * 20_000,
    "surrogates": "\ud83d\ude42" * 5_000,
    "lines of windows": "one\r\n" * 10_000,
    "blanks": " " * 40_000,
    "lines": "\n" * 40_000,
    "full stops": "." * 50_000,
    "quotation marks": '"' * 50_000,
    "escapes": '"' + '\\"' * 50_000,
    "brackets": "[" * 50_000,
    "nested lists": "[1," * 10_000,
    "fences": "```\n" * 5_000,
    "rules": "|-" * 10_000,
    "nothing": "",
}
"""Each has no position to cut at, or nothing else."""


def headings(text: str) -> list[int]:
    """Return the starts of lines that begin with `#`, which is accurate enough for tests."""
    return [heading.start() for heading in re.finditer(r"^#", text, re.MULTILINE)]


def check_promises(
    chunker: Chunker,
    text: str,
    size: int,
    unit: str,
    boundaries: Sequence[int] = (),
    *,
    joins: bool = False,
) -> list[tuple[int, int]]:
    """Check what all chunkers guarantee.

    Chunks are within the text and the size, have ascending starts, cover all words, and cut no
    cluster. With `joins`, what surrounds the letters and digits of a chunk may exceed the size.
    """
    chunks = chunker.split(text, 0, len(text), boundaries)
    covered, longest = 0, MEASURES[unit]
    assert chunks == sorted(chunks)
    for start, end in chunks:
        assert 0 <= start < end <= len(text)
        words = _AROUND.sub("", text[start:end]) if joins else text[start:end]
        assert longest(words) <= size
        assert longest(text[start:end]) <= max(size, 8192)
        assert text[start:end].strip() == text[start:end]
        assert not text[covered:start].strip()
        covered = max(covered, end)
    assert not text[covered:].strip()
    return chunks


def cut_clusters(text: str, chunks: Sequence[tuple[int, int]]) -> list[int]:
    """Return the positions where a chunk begins or ends within a grapheme cluster."""
    places = {place for chunk in chunks for place in chunk}
    return sorted(
        place
        for place in places
        # White space is stripped even if it carries marks.
        if not is_border(text, place) and not text[place - 1].isspace()
    )
