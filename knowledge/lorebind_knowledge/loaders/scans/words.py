"""The words of pages and where they are, so that they can be marked in pictures of the pages."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from typing import Any

from lorebind_knowledge.loaders.base import well_formed
from lorebind_knowledge.loaders.pdf import opened_pdf
from lorebind_knowledge.loaders.scans.pictures import check_pages

MOST_CHARACTERS = 100_000
"""Of a page, counted from its start; twenty times as many as a full page has."""
_GRID = 1_000_000
"""PDFium rounds positions to whole numbers, so the page is drawn on that many a side."""


@dataclass(frozen=True, slots=True)
class PageBox:
    """A box around words of a page that are beside each other.

    Its ends are shares of the width and of the height of the page's picture, from 0 to 1, counted
    from the upper left.
    """

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @classmethod
    def around(cls, corners: Iterable[tuple[float, float]], text: str) -> PageBox:
        """Return the box around points, without what is outside of the page."""
        across, down = zip(*corners, strict=True)
        ends = (min(across), min(down), max(across), max(down))
        left, top, right, bottom = (round(min(max(end, 0.0), 1.0), 4) for end in ends)
        return cls(left, top, right, bottom, well_formed(text))


def packed(boxes: Iterable[PageBox]) -> str:
    """Return boxes as a text that can be stored; `unpacked_boxes` reads it."""
    return json.dumps([*map(astuple, boxes)], ensure_ascii=False, separators=(",", ":"))


def unpacked_boxes(text: str | bytes) -> list[PageBox]:
    return [PageBox(*box) for box in json.loads(text)]


def pdf_words(data: bytes, uri: str, pages: Sequence[int]) -> list[bytes]:
    """Return the words of the text layer of pages, `packed`, in the order of the page's text.

    Raises:
        NotFoundError: it has no such page.
        SourceError: it is broken or encrypted.
    """
    result = []
    with opened_pdf(data, uri) as pdf:
        check_pages(pages, len(pdf), uri)
        for number in pages:
            with closing(pdf[number - 1]) as page, closing(page.get_textpage()) as content:
                result.append(packed(_words(page, content)).encode())
    return result


def _words(page: Any, content: Any) -> Iterator[PageBox]:
    from pypdfium2 import raw

    text: str = ""
    corners: list[tuple[float, float]] = []
    for index in range(min(content.count_chars(), MOST_CHARACTERS)):
        character = chr(raw.FPDFText_GetUnicode(content.raw, index))
        if not character.isspace():
            text += character
            corners += _corners(page, content, index)
            continue
        if corners:
            yield PageBox.around(corners, text)
        text, corners = "", []
    if corners:
        yield PageBox.around(corners, text)


def _corners(page: Any, content: Any, index: int) -> list[tuple[float, float]]:
    """Return two corners of a character, none if PDFium has only generated it."""
    from pypdfium2 import PdfiumError, raw

    try:
        left, bottom, right, top = content.get_charbox(index, loose=True)
    except PdfiumError:
        return []
    across, down = ctypes.c_int(), ctypes.c_int()
    corners = []
    for x, y in ((left, top), (right, bottom)):
        raw.FPDF_PageToDevice(page.raw, 0, 0, _GRID, _GRID, 0, x, y, across, down)
        corners.append((across.value / _GRID, down.value / _GRID))
    return corners
