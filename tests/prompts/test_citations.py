"""Citations, and markers in answers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_prompts import Citation, check, label
from lorebind_prompts.citations import escape_markers

GIVEN = [Citation(f"[{n}]", f"c{n}", "a.md", "A", 0.5, {"uri": "a.md"}, "text") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ({"uri": "docs/cors.md", "line_start": 12, "line_end": 30}, "docs/cors.md, lines 12-30"),
        ({"uri": "docs/cors.md", "line_start": 12, "line_end": 12}, "docs/cors.md, line 12"),
        ({"uri": "docs/cors.md", "line_start": 12}, "docs/cors.md, line 12"),
        ({"uri": "a.pdf", "line_start": 1, "line_end": 2, "page": 4}, "a.pdf, page 4"),
        ({"uri": "a.vtt", "time_start": 723.9}, "a.vtt, 00:12:03"),
        ({"uri": "a.vtt", "time_start": "00:12:03"}, "a.vtt, 00:12:03"),
        ({"title": "Hand\nbook\u202e"}, "Hand book"),
        ({}, "untitled"),
    ],
)
def test_how_a_source_is_shown(metadata: dict[str, Any], shown: str) -> None:
    """A source is its name and the most telling place it has, on one line."""
    assert label(metadata) == shown


@pytest.mark.parametrize(
    ("text", "cited", "unknown"),
    [
        ("Yes [1].", ["[1]"], []),
        ("[3] then [1] and [3]", ["[3]", "[1]"], []),
        ("both [1][2]", ["[1]", "[2]"], []),
        ("both [1, 3] or [2;3]", ["[1]", "[3]", "[2]"], []),
        ("all [1-3], again [2–3]", ["[1]", "[2]", "[3]"], []),
        ("no [9] and [1, 7]", ["[1]"], ["[9]", "[7]"]),
        ("[0] [3-1] [1-999999]", [], ["[0]", "[3-1]", "[1-999999]"]),
        ("`items [1]` and ``a ` [2]``", [], []),
        ("a lone ` backtick [1]", ["[1]"], []),
        ("one ` here\n\nanother ` there [1]", ["[1]"], []),
        ("```python\nx = [1]\n```\n[2]", ["[2]"], []),
        ("~~~\n```\n[1]\n~~~ \n[2]", ["[2]"], []),
        ("> ```\n> [1]\n> ```\n> [2]", ["[2]"], []),
        ("```\nunclosed [1]", [], []),
        ("items[0], x[1] and m[1][2]", [], []),
        ("使用中间件[1]。", ["[1]"], []),
        ("[1](https://example.org) and [text][2]", [], []),
        (r"escaped \[1] and [^2]", [], []),
        ("(see docs)[1].", ["[1]"], []),
        ("", [], []),
    ],
)
def test_which_markers_count(text: str, cited: list[str], unknown: list[str]) -> None:
    """Markers in prose count, those in code, indices and links do not."""
    answer = check(text, GIVEN)
    assert [one.marker for one in answer.citations] == cited
    assert answer.unknown == unknown
    assert answer.text == text


@settings(deadline=None)
@given(st.text(alphabet="[]1-, `\n~>\\x(", max_size=60))
def test_escaped_text_cites_nothing(text: str) -> None:
    """A text whose markers are escaped has none, whatever it holds."""
    answer = check(escape_markers(text), GIVEN)
    assert (answer.citations, answer.unknown) == ([], [])


def test_checking_takes_linear_time() -> None:
    """An answer made of backticks and brackets is checked quickly."""
    started = time.perf_counter()
    for text in ("`" * 200_000, "` `` " * 50_000, "[1, " * 50_000, "[1]" * 50_000):
        check(text, GIVEN)
    assert time.perf_counter() - started < 10
