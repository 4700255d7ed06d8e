"""Words of a document on the picture of a page: whole words only, and with limited effort."""

from __future__ import annotations

import pytest

from lorebind_knowledge.catalog.chunks import StoredChunk
from lorebind_knowledge.documents import page_boxes
from lorebind_knowledge.loaders.scans.words import PageBox


def marked(page: str, text: str) -> list[str]:
    words = [
        PageBox(at * 0.05, row * 0.02, at * 0.05 + 0.04, row * 0.02 + 0.015, word)
        for row, line in enumerate(page.split("\n"))
        for at, word in enumerate(line.split())
    ]
    chunk = StoredChunk(1, "c", "a.pdf", text, {"start": 0, "page": 1})
    return [box.text for box in page_boxes.marked_boxes(words, [chunk], 1, 0, None)]


@pytest.mark.parametrize(
    ("page", "text", "boxes"),
    [
        ("312 12 7\n5 6", "12 | 5", ["12", "5"]),
        ("12 7\n312 5", "7 | 12", ["12 7"]),
        ("312\n123", "12 | 4", []),
    ],
)
def test_cells_are_whole_words(page: str, text: str, boxes: list[str]) -> None:
    """A cell is not taken for a part of a number before it, nor missed because of that number."""
    assert marked(page, text) == boxes


def test_limited_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page on which thousands of parts are not found ends with the words until then."""
    page, text = "first " + "ab " * 1_000 + "last", "first | ba | last"
    assert marked(page, text) == ["first", "last"]
    monkeypatch.setattr(page_boxes, "_MOST_EFFORT", 20_000)
    assert marked(page, text) == ["first"]
