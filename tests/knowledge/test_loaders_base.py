"""Spans with lines, pages and times, and titles from names."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_knowledge.loaders.base import (
    MOST_HEADINGS,
    LoadedDocument,
    name_of,
    suffix_of,
    title_of,
    well_formed,
)
from lorebind_knowledge.loaders.marks import Anchor, Cue, Heading
from lorebind_knowledge.loaders.registry import load_document
from tests.density import examples


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
    """Lines count from 1, inclusive, with any line ends."""
    start = text.index(passage)
    span = LoadedDocument(text, "x").span(start, start + len(passage))
    assert (span.line_start, span.line_end) == lines
    assert span.as_metadata() == {
        "start": start,
        "end": start + len(passage),
        "line_start": lines[0],
        "line_end": lines[1],
    }


@settings(max_examples=examples(300))
@given(st.text(st.sampled_from("ab \n\r#\ufeff東"), max_size=60), st.data())
def test_spans_agree_with_a_naive_count(text: str, data: st.DataObject) -> None:
    """For any passage of any text, offsets and lines equal a naive count."""
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


@pytest.mark.parametrize(
    ("start", "end", "on"),
    [
        (0, 3, (1, None)),
        (0, 11, (1, 3)),
        (3, 6, (1, None)),
        (5, 8, (2, 3)),
        (6, 8, (3, None)),
        (9, 10, (3, None)),
    ],
)
def test_pages(start: int, end: int, on: tuple[int, int | None]) -> None:
    """A passage has its first and last page; white space at its end does not count."""
    pages = (Anchor(0, "page", 1), Anchor(5, "page", 2), Anchor(6, "page", 3))
    document = LoadedDocument("one\n\n\nthree", "x", anchors=pages)
    span = document.span(start, end)
    assert (span.page, span.page_end) == on


@pytest.mark.parametrize(
    ("start", "end", "times"),
    [
        (0, 3, (1.0, 2.0)),
        (0, 7, (1.0, 9.5)),
        (4, 7, (2.0, 9.5)),
        (2, 9, (1.0, 9.5)),
        (8, 11, (3.0, 4.0)),
        (3, 4, None),
        (5, 5, (2.0, 9.5)),
    ],
)
def test_times(start: int, end: int, times: tuple[float, float] | None) -> None:
    """A passage lasts from the first cue that it touches to the latest end of a touched cue."""
    cues = (Cue(0, 3, 1.0, 2.0), Cue(4, 7, 2.0, 9.5), Cue(8, 11, 3.0, 4.0))
    span = LoadedDocument("one\ntwo\nsix", "x", cues=cues).span(start, end)
    assert (span.time_start, span.time_end) == (times or (None, None))
    assert ("time_start" in span.as_metadata()) == (times is not None)


@pytest.mark.parametrize(
    ("uri", "title"),
    [
        ("docs/start.md", "start"),
        ("README", "README"),
        ("odd#name?.md", "odd#name?"),
        ("https://example.com/a/b%20c.html?x=/d.pdf#e", "b c"),
        ("https://example.com/guide/", "guide"),
        ("https://example.com", "example"),
        ("https://[broken/x.md", "x"),
        ("", ""),
    ],
)
def test_title_of(uri: str, title: str) -> None:
    """A document without a title is named after its file, or the last part of its URL."""
    assert title_of(uri) == title


@given(st.text("aA./:% é", max_size=9))
def test_suffix_of(uri: str) -> None:
    """The extension of a uri is that of the file name in it, in lower case."""
    assert suffix_of(uri) == name_of(uri).suffix.lower()


@pytest.mark.parametrize(
    ("name", "unit"),
    [("a.md", "# a\n"), ("a.rst", "a\n=\n"), ("a.adoc", "= a\n"), ("a.tex", "\\section{a}\n")],
)
def test_most_headings(name: str, unit: str) -> None:
    """Text that consists only of headings takes bounded memory."""
    document = load_document(unit.encode() * (MOST_HEADINGS + 2), name)
    assert len(document.headings) == MOST_HEADINGS
    assert document.text.endswith(unit)


def test_most_headings_of_a_notebook() -> None:
    """The limit counts the headings of all cells together."""
    cells = [{"cell_type": "markdown", "source": "# a\n" * MOST_HEADINGS}] * 2
    document = load_document(json.dumps({"cells": cells}).encode(), "a.ipynb")
    assert len(document.headings) == MOST_HEADINGS


@given(st.text(st.characters()))
def test_well_formed(text: str) -> None:
    """Any result is UTF-8 without zero bytes; a well-formed text stays the same."""
    result = well_formed(text)
    result.encode()
    assert "\0" not in result
    if "\0" not in text and text.isascii():
        assert result == text


@settings(max_examples=examples(100))
@given(st.data())
def test_marks_move_with_the_text(data: st.DataObject) -> None:
    """Headings, pages and times stay at their words; only headings that are removed are dropped."""
    words = [f"w{letter}" for letter in "abcdefghijkl"]
    text = " ".join(words)
    starts = [text.index(word) for word in words]
    document = LoadedDocument(
        text,
        "x",
        tuple(Heading(start, 1, word) for start, word in zip(starts, words, strict=True)),
        anchors=tuple(map(Anchor, starts, ["chapter"] * len(words), words)),
        cues=tuple(Cue(start, start + 2, 0.0, 1.0) for start in starts),
        body_start=starts[1],
        body_end=starts[-1],
    )
    chosen = data.draw(st.lists(st.sampled_from(range(12)), unique=True, min_size=1).map(sorted))
    mark = data.draw(st.sampled_from(["", "-", "a longer text"]))
    edited = document.edited((starts[at] - 1, starts[at] + 1, mark) for at in chosen if at)
    others = [word for at, word in enumerate(words) if at not in chosen or not at]
    assert [heading.title for heading in edited.headings] == others
    for heading in edited.headings:
        assert edited.text.startswith(heading.title, heading.start)
    for anchor, cue in zip(edited.anchors, edited.cues, strict=True):
        word = anchor.name if anchor.name in others else str(anchor.name)[1:]
        assert edited.text.startswith(str(word), anchor.start)
        assert edited.text[cue.start : cue.end] == word
    body = edited.text[edited.body_start : edited.end]
    assert body.startswith("wb" if "wb" in others else "b")
    assert edited.within(f"..{edited.text}..", 2).span(2, 3).line_start == 1
    assert document.edited([]) is document


def test_what_is_replaced_is_replaced_everywhere() -> None:
    """A pattern is replaced in the text, all titles and names, and within the metadata."""
    document = LoadedDocument(
        "About Ann.\n\nAnn's page",
        "Ann",
        (Heading(0, 1, "About Ann"),),
        metadata={"Ann": ["Ann", {"by": "Ann", "year": 2026}, ("Ann", {"x": ("Ann",)})]},
        anchors=(Anchor(0, "sheet", "Ann"), Anchor(12, "page", 2)),
    )
    redacted = document.replaced("(A)nn", r"\1.")
    assert "Ann" not in repr(redacted)
    assert redacted.metadata == {"A.": ["A.", {"by": "A.", "year": 2026}, ("A.", {"x": ("A.",)})]}
    assert redacted.anchors == (Anchor(0, "sheet", "A."), Anchor(11, "page", 2))
    assert document.replaced("Bob", "x") == document
