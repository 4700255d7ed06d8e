"""Loaders: decoding, titles, headings, and lines that agree with a naive count."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.loaders.base import Heading, LoadedDocument
from lorebind_knowledge.loaders.registry import SUPPORTED_SUFFIXES, load_document


def markdown(text: str) -> LoadedDocument:
    return load_document(text.encode(), "guide/start.md")


def titles(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in markdown(text).headings]


# Titles and front matter.


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From above\n---\n# Heading\n", "From above"),
        ("---\ntitle: '  '\n---\n# Heading\n", "Heading"),
        ("---\ntitle: 7\n---\n# Heading\n", "Heading"),
        ("---\nother: x\n---\n## Second level\n# First\n", "Second level"),
        ("text only", "start"),
        ("", "start"),
    ],
)
def test_title(text: str, title: str) -> None:
    """The front matter's title, else the first heading, else the file's name."""
    assert markdown(text).title == title


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("---\ntitle: x\n---\nbody", "body"),
        ("---\r\ntitle: x\r\n---\r\nbody", "body"),
        ("---  \ntitle: x\n---\t\nbody\n---\nmore", "body\n---\nmore"),
        ("---\ntitle: x\n---", ""),
        ("\ufeff---\ntitle: x\n---\nbody", "body"),
    ],
)
def test_front_matter_is_not_indexed(text: str, body: str) -> None:
    """The indexed part begins after the front matter."""
    document = markdown(text)
    assert document.text[document.body_start :] == body


@pytest.mark.parametrize(
    "text",
    [
        "---\njust a line\n---\nbody",
        "---\nkey: [unclosed\n---\nbody",
        "---\nday: 2024-13-45\n---\nbody",
        "---\na: !!bool maybe\n---\nbody",
        "---\na: !!timestamp never\n---\nbody",
        "---\na: !!int ''\n---\nbody",
        "---\na: !!python/object:os.system x\n---\nbody",
        f"---\na: {'[' * 1200}\n---\nbody",
        "---\ntitle: never closed\nbody",
        "\n---\ntitle: not first\n---\nbody",
        "----\ntitle: too long\n----\nbody",
    ],
)
def test_what_is_no_front_matter_is_text(text: str) -> None:
    """What YAML cannot read as a mapping, for whatever reason, belongs to the text."""
    assert markdown(text).body_start == 0


# Headings.


def test_headings_of_both_kinds() -> None:
    """ATX and setext headings, with their levels and starts."""
    text = "# One\n\nTwo\n===\n\n### Three ###\n\nFour\nand more\n---\n"
    document = markdown(text)
    assert document.headings == (
        Heading(0, 1, "One"),
        Heading(text.index("Two"), 1, "Two"),
        Heading(text.index("### Three"), 3, "Three"),
        Heading(text.index("Four"), 2, "Four and more"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "#hashtag",
        "####### seven",
        "    # indented code",
        "#",
        "# ",
        "## ##",
        "- item\n---\n",
        "\n---\n",
        "> quote\n===",
        "![](logo.png)\n---\n",
        "a\n\n===",
    ],
)
def test_no_headings(text: str) -> None:
    """What CommonMark does not call a heading is none, nor is one without words."""
    assert titles(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```\n# yes",
        "~~~ python\n# no\n```\n# no\n~~~\n# yes",
        "````\n```\n# no\n```\n# no\n````\n# yes",
        "```\n# no\n`````\n# yes",
        "   ```sh\n# no\n   ```\n# yes",
        "``` not a fence ```\n\n# yes",
        "para\n```\n---\n```\n# yes",
        "```\n# no\n``` info is not a closing\n# no\n```\n# yes",
        "```\r\n# no\r\n```\r\n# yes\r\n",
    ],
)
def test_code_holds_no_headings(text: str) -> None:
    """Comments inside a fence are code; the fence ends with a mark that is at least as long."""
    assert titles(text) == [(1, "yes")]


def test_a_fence_that_is_never_closed() -> None:
    """An open fence makes all that follows code."""
    assert titles("# yes\n~~~\n# no\n") == [(1, "yes")]


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Install { #install }", "Install"),
        ("Install {#install .big}", "Install"),
        ("Install {#i} now", "Install {#i} now"),
        ("The `snake_case_name` of *it* and **that**", "The snake_case_name of it and that"),
        ("my_own_name", "my_own_name"),
        ("[Link](https://example.com/a_b) text", "Link text"),
        ("[`Code`](x.md) and [**bold**](y.md)", "Code and bold"),
        ("[![badge](b.svg)](https://example.com) Name", "badge Name"),
        ("![Logo](logo.png) Name", "Logo Name"),
        ("`List<int>` of <b>things</b>", "List<int> of things"),
        ("a < b and c > d", "a < b and c > d"),
        ("C# and F #", "C# and F"),
        ("C#", "C#"),
        ("東京 ガイド", "東京 ガイド"),
    ],
)
def test_headings_are_plain_text(written: str, title: str) -> None:
    """Attribute lists and inline markup are left out; the words stay, underscores among them."""
    assert titles(f"## {written}\n") == [(2, title)]


def test_heading_path() -> None:
    """A passage stands under the nearest heading of each higher level."""
    text = "intro\n# A\na\n### Deep\nd\n## B\nb\n# C\nc\n"
    document = markdown(text)

    def path(word: str) -> list[str]:
        return document.heading_path(text.index(word))

    assert path("intro") == []
    assert path("# A") == ["A"]
    assert path("d\n") == ["A", "Deep"]
    assert path("b\n") == ["A", "B"]
    assert path("c\n") == ["C"]


@pytest.mark.parametrize(
    "text",
    [
        "words of one paragraph\n" * 60_000 + "---\n",
        "# a" + " " * 100_000 + "x",
        "# " + "[" * 100_000,
        "# " + "<" * 100_000,
        "# " + "{" * 100_000,
        "# " + "`" * 99_999 + "x",
        "=" * 100_000,
    ],
    ids=["paragraph", "spaces", "brackets", "angles", "braces", "ticks", "line"],
)
def test_hostile_texts_take_no_quadratic_time(text: str) -> None:
    """A long paragraph or line of markup costs what its length costs."""
    started = time.process_time()
    markdown(text)
    assert time.process_time() - started < 2


# Spans.


@pytest.mark.parametrize(
    ("text", "passage", "lines"),
    [
        ("one\ntwo\nthree", "one", (1, 1)),
        ("one\ntwo\nthree", "three", (3, 3)),
        ("one\ntwo\nthree", "one\ntwo", (1, 2)),
        ("one\ntwo\nthree", "one\n", (1, 1)),
        ("one\r\ntwo\r\nthree\r\n", "two\r\nthree", (2, 3)),
        ("\n\none", "one", (3, 3)),
    ],
)
def test_lines(text: str, passage: str, lines: tuple[int, int]) -> None:
    """Lines count from 1, with both ends, whatever ends them."""
    start = text.index(passage)
    span = markdown(text).span(start, start + len(passage))
    assert (span.line_start, span.line_end) == lines
    assert span.as_metadata() == {
        "start": start,
        "end": start + len(passage),
        "line_start": lines[0],
        "line_end": lines[1],
    }


@settings(max_examples=300)
@given(st.text(st.sampled_from("ab \n\r#\ufeff東"), max_size=60), st.data())
def test_spans_agree_with_a_naive_count(text: str, data: st.DataObject) -> None:
    """Of any passage of any text, offsets and lines are those that one would count by hand."""
    document = load_document(text.encode(), "a.txt")
    assert document.text == text.removeprefix("\ufeff")
    text = document.text
    if not text:
        return
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    span = document.span(start, end)
    assert (span.start, span.end) == (start, end)
    assert span.line_start == text[:start].count("\n") + 1
    assert span.line_end == text[: end - 1].count("\n") + 1


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            ["# A", "## B", "text", "===", "---", "", "```", "~~~~", "- x", "`a`", "{ #i }"]
        ),
        max_size=25,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_headings_are_where_they_say(lines: list[str], ending: str) -> None:
    """On any mixture of lines, headings come in order, are not blank, and start a line."""
    document = markdown(ending.join(lines))
    starts = [heading.start for heading in document.headings]
    assert starts == sorted(set(starts))
    for heading in document.headings:
        assert heading.title
        assert heading.start == 0 or document.text[heading.start - 1] == "\n"
        assert heading.start >= document.body_start
    assert document.title


# Decoding.


def test_byte_order_mark() -> None:
    """A byte order mark is no part of the text, and offsets do not count it."""
    document = load_document(b"\xef\xbb\xbf# Title\n", "a.md")
    assert document.text == "# Title\n"
    assert document.headings == (Heading(0, 1, "Title"),)


def test_not_utf8() -> None:
    """The error names the first byte that is not text, and the way out."""
    with pytest.raises(SourceError, match=r"a.md: not UTF-8: byte 0xe9 at offset 3; save the file"):
        load_document("café".encode("latin-1"), "a.md")


@pytest.mark.parametrize("data", [b"\x89PNG\0\0", "text".encode("utf-16")])
def test_binary(data: bytes) -> None:
    """A binary file under a text's name is told by its zero bytes."""
    with pytest.raises(SourceError, match=r"a.txt: looks like a binary file"):
        load_document(data, "a.txt")


@pytest.mark.parametrize(("uri", "what"), [("a.xyz", ".xyz"), ("README", "without ending")])
def test_unknown_suffix(uri: str, what: str) -> None:
    """A file that no loader knows is refused with the list of those that are."""
    with pytest.raises(SourceError, match=what) as caught:
        load_document(b"x", uri)
    assert ", ".join(SUPPORTED_SUFFIXES) in str(caught.value)


def test_suffixes_in_any_case() -> None:
    """The ending decides, written in either case; plain text has no headings."""
    assert load_document(b"# A", "X.MD").title == "A"
    plain = load_document(b"# A", "notes/x.TXT")
    assert (plain.title, plain.headings, plain.body_start) == ("x", (), 0)
