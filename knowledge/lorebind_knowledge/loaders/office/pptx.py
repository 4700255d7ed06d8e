"""Load PPTX: slides of PowerPoint with texts, tables and notes; slide titles are headings."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

from lorebind_config.plugins import import_extra
from lorebind_knowledge.loaders.base import LoadedDocument, as_title, well_formed
from lorebind_knowledge.loaders.builder import DocumentBuilder
from lorebind_knowledge.loaders.marks import Anchor, Heading
from lorebind_knowledge.loaders.office.packages import (
    core_properties,
    has_picture,
    pictures_of,
    reading_package,
)
from lorebind_knowledge.loaders.tables import header_rows

_DEFAULT_TITLE = "PowerPoint Presentation"
"""The title that PowerPoint and python-pptx write into presentations without a title."""


_EMPTY = ("", 0)
_A_PICTURE = ("", -1)
"""A shape without text and a picture; other shapes have a text and its number of header rows."""


def load_pptx(data: bytes, uri: str, *, pictures: bool = False) -> LoadedDocument:
    """Load a presentation; with `pictures`, each that `pptx_pictures` returns is a block.

    Shapes are separated by a blank line, table rows have the form `a | b`, and notes begin with
    `Notes: `.

    Raises:
        SourceError: it is broken, encrypted, or too large when unpacked.
        MissingDependencyError: the extra is not installed.
    """
    pptx = import_extra("pptx", extra="office", purpose="reading .pptx files")
    builder = DocumentBuilder(uri)
    with reading_package(data, uri, "PowerPoint presentation"):
        presentation = pptx.Presentation(io.BytesIO(data))
        for number, slide in enumerate(presentation.slides, 1):
            heading, texts = _slide(slide, pictures=pictures)
            blocks = [block for block in ((heading, 0), *texts) if block != _EMPTY]
            if heading:
                builder.headings.append(Heading(builder.at, 1, heading))
            if blocks:
                builder.anchors.append(Anchor(builder.at, "slide", number))
            else:
                builder.omitted["slide"] += 1
            builder.omitted["image"] += sum(map(_is_picture, _shapes(slide.shapes)))
            for block in blocks:
                if block == _A_PICTURE:
                    builder.add_picture()
                else:
                    builder.add(*block)
        title = as_title(str(presentation.core_properties.title or ""))
        properties = core_properties(presentation.core_properties)
    return builder.document("pptx", "" if title == _DEFAULT_TITLE else title, properties)


def pptx_pictures(data: bytes, uri: str, pages: Sequence[int]) -> list[bytes]:
    """Return pictures within a presentation by their numbers, see `pictures_of`."""
    pptx = import_extra("pptx", extra="office", purpose="reading .pptx files")
    with reading_package(data, uri, "PowerPoint presentation"):
        slides = pptx.Presentation(io.BytesIO(data)).slides
        shapes = ((slide, shape) for slide in slides for shape in _shapes(slide.shapes))
        parts = [part for each in shapes if has_picture(part := _part(*each))]
        return pictures_of(parts, uri, pages)


def _part(slide: Any, shape: Any) -> Any:
    """Return the part of a picture; None if it is none, or the file does not contain it."""
    related = slide.part.rels.get(shape.element.blip_rId) if _is_picture(shape) else None
    return None if related is None or related.is_external else related.target_part


def _slide(slide: Any, *, pictures: bool) -> tuple[str, list[tuple[str, int]]]:
    """Return the title (empty if none) and the other texts of a slide.

    Each text has the number of its first lines that are the header of a table.
    """
    title_shape = slide.shapes.title
    title = as_title(title_shape.text_frame.text) if title_shape is not None else ""
    texts = [
        _A_PICTURE if pictures and has_picture(_part(slide, shape)) else _text(shape)
        for shape in _shapes(slide.shapes)
        if title_shape is None or shape.element is not title_shape.element
    ]
    if title_shape is not None and not title:  # the title is too long to be repeated with passages
        texts.insert(0, _text(title_shape))
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
        notes = _lines(frame.text)
        texts.append((f"Notes: {notes}" if notes else "", 0))
    return title, texts


def _shapes(shapes: Any) -> Iterator[Any]:
    """Yield all shapes in order, including those in groups."""
    waiting = list(reversed(list(shapes)))
    while waiting:
        shape = waiting.pop()
        if hasattr(shape, "shapes"):
            waiting.extend(reversed(list(shape.shapes)))
        else:
            yield shape


def _is_picture(shape: Any) -> bool:
    return bool(shape.element.tag.endswith("}pic"))


def _text(shape: Any) -> tuple[str, int]:
    if not getattr(shape, "has_table", False):
        return _lines(shape.text_frame.text) if shape.has_text_frame else "", 0
    table = shape.table
    cleaned = ([" ".join(_lines(cell.text).split()) for cell in row.cells] for row in table.rows)
    rows = [cells for cells in cleaned if any(cells)]
    text = "\n".join(" | ".join(cells) for cells in rows)
    return text, header_rows(rows) if table.first_row else 0


def _lines(text: str) -> str:
    """Return paragraphs as lines; PowerPoint uses vertical tabs as line breaks in paragraphs."""
    lines = (" ".join(line.split()) for line in text.replace("\v", "\n").split("\n"))
    return well_formed("\n".join(filter(None, lines)))
