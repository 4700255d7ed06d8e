"""`remove_html`: removes tags, comments and scripts; keeps code, line breaks and headings."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.html.removal import without_html
from lorebind_knowledge.loaders.registry import load_document
from tests.density import examples


def removed(text: str, name: str = "a.md") -> str:
    return without_html(load_document(text.encode(), name)).text


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("<b>bold</b> and <a href='x' title=\"y\">link</a>", "bold and link"),
        ("one<br>two<br/>three", "one two three"),
        ("<td>a</td><td>b</td>", " a  b"),
        ("a<!-- gone -->b", "ab"),
        ("x<script>var a = '<b>';</script>y", "x y"),
        ("x<STYLE>p {}</Style>y", "x y"),
        ("Q&amp;A &lt;b&gt; &copy; &#8364;&nbsp;5", "Q&A <b> © € 5"),
        ("&amp;lt;", "&lt;"),
        ("AT&T; a & b &nosuch; &", "AT&T; a & b &nosuch; &"),
        ("<Tabs><Tab id='x'>in</Tab></Tabs><Icon />", " in"),
    ],
)
def test_removed(written: str, left: str) -> None:
    """Tags are removed and their text is kept; entities are decoded once."""
    assert removed(written).strip() == left.strip()
    assert removed(written, "a.txt").strip() == left.strip()


@pytest.mark.parametrize(
    "text",
    [
        "`<b>` and ``a ` <i>`` and `&amp;`",
        "```html\n<b>&amp;</b>\n```",
        "~~~\n<b>\n```\n<b>\n~~~",
        "````\n<b>\n```\n<b>\n````",
        "```\n<b> never closed",
        "List<String> and Map<K, V> and <your-name>",
        "<https://example.com> and <me@example.com>",
        "a < b and c > d, 1<2>1",
        r"\<b> and \&amp;",
        "<!-- never closed",
        "`two\nlines <b>`",
    ],
)
def test_kept(text: str) -> None:
    """Code stays as it is, and so does text that only looks like markup."""
    assert removed(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("`open\n\n<b>x</b> `", "`open\n\nx `"),
        ("``` not a fence ```<b>x</b>", "``` not a fence ```x"),
        ("```\n<b>\n```\n<b>x</b>", "```\n<b>\n```\nx"),
        ("``open <b>x</b> `", "``open x `"),
    ],
)
def test_what_is_no_code(text: str, left: str) -> None:
    """Backticks without a closing run start no code; a fence ends with its mark."""
    assert removed(text) == left


def test_headings_and_lines() -> None:
    """Headings keep their lines, those in comments are removed, and titles are unescaped."""
    text = (
        "---\ntitle: T\n---\n<div\n  id='a'>\n\n# <b>One</b> &amp; two\n\n<!--\n# Not\n-->\n\n"
        "<span></span>text\n\n## Three\n<p>end</p>\n"
    )
    before = load_document(text.encode(), "a.md")
    after = without_html(before)
    assert after.text.count("\n") == before.text.count("\n")
    headings = [(h.level, h.title, after.text[h.start :].split("\n")[0]) for h in after.headings]
    assert headings == [(1, "One & two", "# One & two"), (2, "Three", "## Three")]
    start = after.text.index("text")
    assert after.span(start, start + 4).line_start == before.span(text.index("text"), 99).line_start
    assert after.body_start == before.body_start


def test_front_matter_stays() -> None:
    """Front matter, which is not indexed, stays the same."""
    text = "---\ntitle: A <b> &amp;\n---\n"
    assert removed(text) == text


@pytest.mark.parametrize("format", ["html", "csv", "json", "pdf"])
def test_other_formats(format: str) -> None:
    """Documents of other formats are returned unchanged."""
    document = LoadedDocument("<b>x</b>", "x", format=format)
    assert without_html(document) is document
    assert without_html(dataclasses.replace(document, format="text")).text == "x"


WORDS = ["<b>", "</b>", "<br>", "a", " ", "\n", "\n\n", "&amp;", "&#10;", "`", "```", "~~~", "<!--"]
WORDS += ["-->", "<script>", "</script>", "# H", "\n# H\n", "<x-y>", "<", ">", "'", '"', "\\"]


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from(WORDS), max_size=25).map("".join))
def test_any_mixture(text: str) -> None:
    """The number of line breaks stays the same, and each heading stays on its line."""
    before = load_document(text.encode(), "a.md")
    after = without_html(before)
    assert after.text.count("\n") == text.count("\n")
    lines = {before.span(h.start, h.start + 1).line_start for h in before.headings}
    for heading in after.headings:
        assert after.span(heading.start, heading.start + 1).line_start in lines
    assert len(after.text) <= len(text)
