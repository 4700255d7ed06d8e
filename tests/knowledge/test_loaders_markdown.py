"""Markdown: front matter, titles and headings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.marks import Heading
from lorebind_knowledge.loaders.registry import load_document
from tests.density import examples


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
    """The title is that of the front matter, or else the first heading, or else the file name."""
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
    """A block that YAML cannot read as a mapping, for any reason, belongs to the text."""
    assert markdown(text).body_start == 0


def test_front_matter_is_metadata() -> None:
    """Scalars and lists of scalars are kept as JSON values, except the title."""
    text = (
        "---\ntitle: x\ntags: [a, 1, true]\nauthor: Ada\ndraft: false\nweight: 1.5\n"
        "date: 2024-05-01\nat: 2024-05-01T10:00:00Z\n---\nbody"
    )
    assert markdown(text).metadata == {
        "tags": ["a", 1, True],
        "author": "Ada",
        "draft": False,
        "weight": 1.5,
        "date": "2024-05-01",
        "at": "2024-05-01T10:00:00Z",
    }


@pytest.mark.parametrize(
    "line",
    [
        "nested: {a: 1}",
        "nested: [[1]]",
        "nothing:",
        "some: [a, null]",
        "empty: []",
        "7: seven",
        "far: .inf",
        f"huge: 0x{'f' * 5000}",
        "page: 7",
        "locator: slide 4",
        "encoding: mine",
    ],
)
def test_what_is_no_flat_metadata(line: str) -> None:
    """Nested, empty and infinite values are omitted, as are names that passages use themselves."""
    document = markdown(f"---\n{line}\nkept: yes it is\n---\nbody")
    assert document.metadata == {"kept": "yes it is"}
    assert document.text[document.body_start :] == "body"


def test_merge_keys_do_not_explode() -> None:
    """Maps that merge each other do not take exponential time: they are not front matter."""
    levels = "".join(f"l{n}: &l{n} {{<<: [{f'*l{n - 1}, ' * 9}]}}\n" for n in range(1, 12))
    assert markdown(f"---\nl0: &l0 {{a: 1}}\n{levels}---\nbody").body_start == 0


def test_times_in_front_matter_are_text() -> None:
    """`12:30` is text, and not 750 as in YAML 1.1."""
    document = markdown("---\nat: 12:30\nlength: 1:30:00\nlist: [1:30.5]\nn: 7\n---\nbody")
    assert document.metadata == {"at": "12:30", "length": "1:30:00", "list": ["1:30.5"], "n": 7}


def test_long_front_matter_is_text() -> None:
    """A block of more than 65,536 characters is not front matter, whatever it contains."""
    block = "a: " + "x" * (2**16 - 4) + "\n"
    assert markdown(f"---\n{block}---\nbody").body_start == len(block) + 8
    assert markdown(f"---\nb{block}---\nbody").body_start == 0


def test_long_titles_are_none() -> None:
    """A title that is too long to repeat with each passage is not a title."""
    long = "word " * 200 + "x"
    assert markdown(f"---\ntitle: {long}\n---\n# {long}\n# Short\n").title == "Short"
    assert markdown(f"---\ntitle: {long[:-2]}\n---\n").title == long[:-2]


def test_half_a_character_in_front_matter() -> None:
    """A lone surrogate, which no database stores, is replaced everywhere."""
    document = markdown('---\ntitle: "a\\ud800"\nnote: "b\\udfff"\n---\nbody')
    assert (document.title, document.metadata) == ("a\ufffd", {"note": "b\ufffd"})


# Headings.


def test_headings_of_both_kinds() -> None:
    """ATX and setext headings are found, with their levels and starts."""
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
    """Lines that are not headings in CommonMark are not headings; nor are those without words."""
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
    """Comments in a fence are code; the fence ends with a mark that is at least as long."""
    assert titles(text) == [(1, "yes")]


def test_a_fence_that_is_never_closed() -> None:
    """An unclosed fence makes everything after it code."""
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
    """Attribute lists and inline markup are removed; words and their underscores are kept."""
    assert titles(f"## {written}\n") == [(2, title)]


def test_heading_path() -> None:
    """A passage is below the nearest heading of each higher level."""
    text = "intro\n# A\na\n### Deep\nd\n## B\nb\n# C\nc\n"
    document = markdown(text)

    def path(word: str) -> list[str]:
        return document.heading_path(text.index(word))

    assert path("intro") == []
    assert path("# A") == ["A"]
    assert path("d\n") == ["A", "Deep"]
    assert path("b\n") == ["A", "B"]
    assert path("c\n") == ["C"]


@settings(max_examples=examples(300))
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
    """For any mixture of lines, headings are in order, not blank, and at the start of a line."""
    document = markdown(ending.join(lines))
    starts = [heading.start for heading in document.headings]
    assert starts == sorted(set(starts))
    for heading in document.headings:
        assert heading.title
        assert heading.start == 0 or document.text[heading.start - 1] == "\n"
        assert heading.start >= document.body_start
    assert document.title
