"""Citations, and markers in answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_prompts import Citation, check, label
from lorebind_prompts.citations import escape_markers

from .helpers import comes_to_an_end

GIVEN = [Citation(f"[{n}]", f"c{n}", "a.md", "A", 0.5, {"uri": "a.md"}, "text") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"uri": "docs/cors.md", "line_start": 12, "line_end": 30}, "docs/cors.md, lines 12-30"),
        ({"uri": "docs/cors.md", "line_start": 12, "line_end": 12}, "docs/cors.md, line 12"),
        ({"uri": "docs/cors.md", "line_start": 12}, "docs/cors.md, line 12"),
        ({"uri": "a.pdf", "line_start": 1, "line_end": 2, "page": 4}, "a.pdf, page 4"),
        ({"uri": "a.pdf", "page": 4, "page_end": 6}, "a.pdf, pages 4-6"),
        ({"uri": "a.pdf", "page": 0, "page_label": "iv"}, "a.pdf, page iv"),
        ({"uri": "a.pptx", "line_start": 1, "locator": "slide 4"}, "a.pptx, slide 4"),
        ({"uri": "a.epub", "locator": 'chapter "A\nB"'}, 'a.epub, chapter "A B"'),
        (
            {
                "uri": "a",
                "line_start": 1,
                "chapter": "Sales",
                "cell": "A549",
                "sheet": 1,
                "slide": 2,
            },
            "a, line 1",
        ),
        ({"uri": "a.vtt", "time_start": 723.9}, "a.vtt, 00:12:03"),
        ({"uri": "a.vtt", "time_start": "00:12:03"}, "a.vtt, 00:12:03"),
        ({"title": "Hand\nbook\u202e"}, "Hand book"),
        ({}, "untitled"),
    ],
)
def test_how_a_source_is_shown(metadata: dict[str, Any], expected: str) -> None:
    """A source is shown as its name and its most precise location, on one line."""
    assert label(metadata) == expected


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
        ("`items[0]`, x[1] and m[1][2]", ["[1]", "[2]"], []),
        ("after seven days[1].", ["[1]"], []),
        ("in items[0]", [], ["[0]"]),
        ("[1 and 4] or [1, 4 & 5]", ["[1]"], ["[4]", "[5]"]),
        ("[1, and 2]; [ 3 ] [1，3、4；2]", ["[1]", "[2]", "[3]"], ["[4]"]),
        (
            "【1】【4】 and 【2†source】 【3:0†a.md】【9:12†L1-L5】",
            ["[1]", "[2]", "[3]"],
            ["[4]", "[9]"],
        ),
        ("［１］ [４] [२] [01]", ["[1]", "[2]"], ["[4]"]),
        ("[1000000] and [1-1000000] of [2024]", [], ["[1000000]", "[1-1000000]", "[2024]"]),
        ("[1—3] [9‐10]", ["[1]", "[2]", "[3]"], ["[9]", "[10]"]),
        ("[p. 1] (1) ¹ ① [^1] [1.5] [1:2] [x1] [-1] [] [,1]", [], []),
        ("使用中间件[1]。", ["[1]"], []),
        ("[1](https://example.org) [2]( <a b> 'title' ) [3](a(b)c) ![9](x.png)", [], []),
        ("[1](unclosed, [2] (apart) [3](more words)", ["[1]", "[2]", "[3]"], []),
        ("[text][2] [other][9]\n\n[9]: https://example.org", ["[2]"], []),
        ("[1] and [9]\n[1]: https://example.org\n> [9]: <mailto:a@b>", ["[1]"], ["[9]"]),
        ("[1]: the first\n[9]: the ninth", ["[1]"], ["[9]"]),
        (r"escaped \[1], not \\[2], \`[3]`", ["[2]", "[3]"], []),
        ("(see docs)[1].", ["[1]"], []),
        ("", [], []),
    ],
)
def test_which_markers_count(text: str, cited: list[str], unknown: list[str]) -> None:
    """Numbers in brackets count anywhere except in code, in links and after a backslash."""
    answer = check(text, GIVEN)
    assert [citation.marker for citation in answer.citations] == cited
    assert answer.unknown == unknown
    assert answer.text == text


@settings(deadline=None)
@given(st.text(alphabet="[]【】†［1-,４ `\n~>\\x(:h", max_size=60))
def test_escaped_text_cites_nothing(text: str) -> None:
    """A text with escaped markers has none, even when it is embedded in another text."""
    for whole in (escape_markers(text), f"> - {escape_markers(text)} (more)"):
        answer = check(whole, GIVEN)
        assert (answer.citations, answer.unknown) == ([], [])


def test_checking_takes_linear_time() -> None:
    """An answer full of backticks and brackets is checked in linear time."""
    long = [
        "`",
        "` `` ",
        "[1, ",
        "[1]",
        "[1 ",
        "[1](",
        "[1](a '",
        "\\",
        "\\`",
        "[1†",
        "[1]: a:",
        "[",
    ]
    comes_to_an_end(
        "from lorebind_prompts import check\n"
        "for text in long:\n"
        "    check(text * 50_000, [])\n"
        "for text in ('[' + '1' * 1_000_000, '[1' + ' ' * 1_000_000, '[1](' + 'a' * 1_000_000):\n"
        "    check(text, [])\n"
        "    check(text + ']', [])\n",
        long=long,
    )
