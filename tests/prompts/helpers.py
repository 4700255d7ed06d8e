"""Passages to put into prompts, friendly and hostile."""

from __future__ import annotations

import subprocess
import sys
import zlib
from typing import Any

from hypothesis import strategies as st

from lorebind_prompts import EstimateCounter, RetrievedContext, TiktokenCounter, TokenCounter

from .hostile import HOSTILE

TEMPLATES = [
    "{{ .marker }} {{ .content }}",
    "Source {{ .index }} ({{ .source }}) [{{ .index }}]\n{{ .content }}",
    "{{ .content }}\n-- {{ .metadata.uri }}, {{ .score }}, {{ .marker }}",
]
RENDERERS = ["bullets", "json", "xml", "markdown", *TEMPLATES]


_LONGEST_SECONDS = 120
"""Time limit for work that takes a few seconds in linear time, and hours otherwise."""


def comes_to_an_end(statements: str, **values: Any) -> None:
    """Run Python in a separate process, which is stopped after a time limit."""
    assignments = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    subprocess.run(
        [sys.executable, "-"], input=assignments + statements, text=True, timeout=_LONGEST_SECONDS,
        check=True,
    )  # fmt: skip


class Characters:
    """Counts each character as a token."""

    name, exact = "characters", True

    def count(self, text: str) -> int:
        return len(text)


class Words:
    """Counts each word as a token, so that most of a block's markup costs nothing."""

    name, exact = "words", True

    def count(self, text: str) -> int:
        return len(text.split())


class Wobbling:
    """Sometimes counts fewer tokens for a longer text, like the merges of real tokenizers."""

    name, exact = "wobbling", False

    def count(self, text: str) -> int:
        return max(0, len(text) // 4 + zlib.crc32(text.encode("utf-8", "replace")) % 3 - 1)


COUNTERS: list[TokenCounter] = [
    EstimateCounter(),
    TiktokenCounter(),
    Characters(),
    Words(),
    Wobbling(),
]


class Counting:
    """Records how often it is called, and with what."""

    def __init__(self, inner: TokenCounter) -> None:
        self.name, self.exact = inner.name, inner.exact
        self.lengths: list[int] = []
        self._inner = inner

    def count(self, text: str) -> int:
        self.lengths.append(len(text))
        return self._inner.count(text)


texts = st.one_of(
    st.text(max_size=200),
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from(["Word", "next.", "- [3] x", "\n", "…", "漢字。", "`c`"]), max_size=80)
    .map(" ".join),
)  # fmt: skip

contexts = st.builds(
    lambda content, score, number, source: RetrievedContext(
        binding_id="docs",
        content=content,
        score=score,
        token_estimate=0,
        metadata={"uri": source, "title": source, "line_start": 1, "line_end": 3},
        id=f"c{number}" if number else "",
    ),
    content=texts,
    score=st.sampled_from([0.0, 0.2, 0.5, 0.5, 0.9, 1.0]),
    number=st.integers(0, 12),
    source=st.one_of(st.sampled_from(["docs/cors.md", ""]), texts),
)


def context(content: str, score: float = 0.5, **metadata: Any) -> RetrievedContext:
    """Return a context whose id is its content."""
    return RetrievedContext("docs", content, score, 0, {"uri": "a.md", **metadata}, id=content[:40])
