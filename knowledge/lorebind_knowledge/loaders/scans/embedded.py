"""Put the text that OCR has recognized in pictures within documents where the pictures are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from lorebind_knowledge.loaders.base import LoadedDocument, Scan, check_length
from lorebind_knowledge.loaders.builder import PICTURE

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
