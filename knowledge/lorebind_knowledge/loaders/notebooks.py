"""Load Jupyter notebooks: cells with short outputs, and headings of Markdown cells."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import MOST_HEADINGS, MOST_TABLES, LoadedDocument, well_formed
from lorebind_knowledge.loaders.builder import DocumentBuilder
from lorebind_knowledge.loaders.markdown import headings_of, read_front_matter, tables_of
from lorebind_knowledge.loaders.marks import Anchor
from lorebind_knowledge.text.values import parsed_json

_LONGEST_OUTPUT = 500
"""In characters. Longer outputs are tables or logs, which are less useful than the code."""


def load_notebook(text: str, uri: str) -> LoadedDocument:
    """Load a notebook. Cells count from 1 and are separated by a blank line.

    The title is the first heading, or else the file name.

    Raises:
        SourceError: it is not JSON, or has no cells.
    """
    builder = DocumentBuilder(uri)
    headings = builder.headings
    blanks = 0
    for number, cell in enumerate(_cells(parsed_json(text, uri), uri), 1):
        content = well_formed(_text(cell.get("source", cell.get("input"))).strip())
        if cell.get("cell_type") in ("markdown", "heading"):
            _, body = read_front_matter(content)
            headings += (
                heading._replace(start=builder.at + heading.start)
                for heading in islice(headings_of(content, body), MOST_HEADINGS - len(headings))
            )
            room = MOST_TABLES - len(builder.tables)
            some = islice(tables_of(content, body), room)
            builder.tables += (table.moved(builder.at) for table in some)
        builder.anchors.append(Anchor(builder.at, "cell", number))
        cell_text = "\n".join([content, *_outputs(cell)]).strip("\n")
        builder.add(cell_text)
        pictures = _pictures(cell)
        builder.omitted["image"] += pictures
        blanks += not cell_text
        if cell_text or pictures:  # blank cells at the end, which Jupyter adds, are not counted
            builder.omitted["cell"] += blanks
            blanks = 0
    return builder.document("notebook")


def _cells(notebook: Any, uri: str) -> list[dict[str, Any]]:
    """Return the cells of a notebook; before version 4 of the format they are in a worksheet."""
    cells = None
    if isinstance(notebook, dict):
        sheets = notebook.get("worksheets")
        first = sheets[0] if isinstance(sheets, list) and sheets else None
        cells = (first if isinstance(first, dict) else notebook).get("cells")
    if not isinstance(cells, list):
        raise SourceError(f"{uri}: is JSON, but not a notebook: it has no list of cells")
    return [cell if isinstance(cell, dict) else {} for cell in cells]


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the short outputs: printed text and the value of the last line."""
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict):
            data = output.get("data")
            value = data.get("text/plain") if isinstance(data, dict) else output.get("text")
            text = well_formed(_text(value).strip())
            if 0 < len(text) <= _LONGEST_OUTPUT:
                yield text


def _pictures(cell: dict[str, Any]) -> int:
    """Return the number of outputs that are shown as a picture."""
    outputs = cell.get("outputs")
    every = outputs if isinstance(outputs, list) else ()
    data = (output.get("data") for output in every if isinstance(output, dict))
    return sum(isinstance(kinds, dict) and any(map(_is_image, kinds)) for kinds in data)


def _is_image(media_type: str) -> bool:
    return media_type.startswith("image/")


def _text(value: Any) -> str:
    """Return a text that may be given as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""
