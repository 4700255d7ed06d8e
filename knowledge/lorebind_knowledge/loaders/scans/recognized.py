"""Put the text that OCR has recognized into documents: into pages, and in place of pictures."""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from lorebind_knowledge.loaders.base import LoadedDocument, check_length
from lorebind_knowledge.loaders.builder import PICTURE
from lorebind_knowledge.loaders.marks import Heading, Scan, Table
from lorebind_knowledge.loaders.pdf import BETWEEN_PAGES


def with_pages(document: LoadedDocument, texts: Mapping[int, str], uri: str) -> LoadedDocument:
    """Return a document with other texts of pages; a page keeps its text if the other is empty.

    Args:
        document: a document that consists of pages, with `BETWEEN_PAGES` between them.
        texts: the texts by the number of their page.
        uri: the document's, for messages.

    Raises:
        SourceError: its text would be too long.
    """
    starts = [anchor.start for anchor in document.anchors]
    ends = [*(start - len(BETWEEN_PAGES) for start in starts[1:]), len(document.text)]
    pages, moved, at = [], [], 0
    for anchor, end in zip(document.anchors, ends, strict=True):
        pages.append(texts.get(int(anchor.name)) or document.text[anchor.start : end])
        moved.append(at)
        at += len(pages[-1]) + len(BETWEEN_PAGES)
        check_length(at, uri)

    def page_of(offset: int) -> int:
        return bisect.bisect_right(starts, offset) - 1

    def place(heading: Heading) -> Heading:
        page = page_of(heading.start)
        is_replaced = bool(texts.get(int(document.anchors[page].name)))
        offset = 0 if is_replaced else heading.start - starts[page]
        return heading._replace(start=moved[page] + offset)

    tables = (
        Table(*(moved[page] + offset - starts[page] for offset in table))
        for table in document.tables
        if not texts.get(int(document.anchors[page := page_of(table.start)].name))
    )
    return replace(
        document,
        text=BETWEEN_PAGES.join(pages),
        tables=tuple(tables),
        headings=tuple(map(place, document.headings)),
        anchors=tuple(
            anchor._replace(start=start)
            for anchor, start in zip(document.anchors, moved, strict=True)
        ),
        scanned=tuple(
            Scan(start, start + len(text))
            for anchor, start in zip(document.anchors, moved, strict=True)
            if (text := texts.get(int(anchor.name)))
        ),
    )


_MARK = re.compile(f"{PICTURE}(?:\n\n)?")


def count_pictures(document: LoadedDocument) -> int:
    """Return the number of pictures that are marked in the text."""
    return document.text.count(PICTURE)


def with_pictures(document: LoadedDocument, texts: Mapping[int, str], uri: str) -> LoadedDocument:
    """Return a document with the texts of pictures in place of their marks.

    Marks of other pictures are removed, and so are slides that have nothing else.

    Args:
        document: a document with `PICTURE` where it has pictures.
        texts: the texts by the number of the picture, from 1.
        uri: the document's, for messages.

    Raises:
        SourceError: its text would be too long.
    """
    edits, scanned, shift = [], [], 0
    for number, mark in enumerate(_MARK.finditer(document.text), 1):
        text = texts.get(number, "")
        start, end = mark.start(), mark.start() + 1 if text else mark.end()
        edits.append((start, end, text))
        if text:
            scanned.append(Scan(start + shift, start + shift + len(text)))
        shift += len(text) - (end - start)
    check_length(len(document.text) + shift, uri)
    complete = document.edited(edits)
    anchors = complete.anchors
    ends = [*(anchor.start for anchor in anchors[1:]), len(complete.text)]
    filled = tuple(
        anchor
        for anchor, end in zip(anchors, ends, strict=False)
        if complete.text[anchor.start : end].strip()
    )
    omitted = Counter(document.omitted)
    omitted["slide"] += len(anchors) - len(filled)
    omitted["image"] -= len(scanned)
    return replace(complete, scanned=tuple(scanned), anchors=filled, omitted=dict(omitted))
