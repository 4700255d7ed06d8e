"""Load DOCX: Word's paragraphs, headings and tables in document order."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from lorebind_knowledge.loaders.base import LoadedDocument, well_formed
from lorebind_knowledge.loaders.builder import DocumentBuilder
from lorebind_knowledge.loaders.marks import Heading
from lorebind_knowledge.loaders.office.packages import (
    core_properties,
    has_picture,
    pictures_of,
    reading_package,
)
from lorebind_knowledge.loaders.tables import header_rows

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MARKS = {
    f"{_W}tab": "\t",
    f"{_W}ptab": "\t",
    f"{_W}br": "\n",
    f"{_W}cr": "\n",
    f"{_W}noBreakHyphen": "-",
}
_VISIBLE = {f"{_W}t", *_MARKS}
_BLOCKS = {f"{_W}p", f"{_W}tbl"}
_AROUND_BLOCKS = {f"{_W}{name}" for name in ("sdt", "sdtContent", "ins", "customXml")}
"""Content controls and tracked insertions, whose paragraphs and tables count as the document's."""
_SILENT = {
    f"{_W}pPr",
    f"{_W}rPr",
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",  # repeats the content
}
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_PICTURES = {
    "{http://schemas.openxmlformats.org/drawingml/2006/main}blip": f"{_R}embed",
    "{urn:schemas-microsoft-com:vml}imagedata": f"{_R}id",
}
"""Elements with pictures, and their attributes that name the picture's part."""
_HEADING_NAME = re.compile(r"(?i)head(?:ing)? ?(?:([1-9])|([a-h]))")
_TITLE_NAME = re.compile(r"(?i)(?:chapter ?|document ?)?title")
_CODE_NAME = re.compile(r"(?i)(?>.*(?:code|preformatted|listing|source))(?!.*(?:caption|label)).*")
"""Names of styles of Word and publishers; `HeadA` is one level below a chapter's title."""
_DEFAULT_TITLE = "Word Document"
"""The title that python-docx writes into new documents."""


def load_docx(data: bytes, uri: str, *, pictures: bool = False) -> LoadedDocument:
    """Load a Word document; with `pictures`, each that `docx_pictures` returns is a block.

    Headings are recognized by their styles. List items begin with `- `, and table rows have the
    form `a | b`.

    Raises:
        SourceError: it is broken, encrypted, or too large when unpacked.
    """
    import docx

    builder = DocumentBuilder(uri)
    with reading_package(data, uri, "Word document"):
        document = docx.Document(io.BytesIO(data))
        for text, level, kind, header in _blocks(document, pictures=pictures):
            if kind == "picture":
                builder.add_picture()
                continue
            if level:
                builder.headings.append(Heading(builder.at, level, " ".join(text.split())))
            builder.add(text, header)
        builder.omitted["image"] = sum(1 for _ in _pictures(document.element.body))
        title = well_formed(" ".join(str(document.core_properties.title or "").split()))
        properties = core_properties(document.core_properties)
    return builder.document("docx", "" if title == _DEFAULT_TITLE else title, properties)


def docx_pictures(data: bytes, uri: str, pages: Sequence[int]) -> list[bytes]:
    """Return pictures within a Word document by their numbers, see `pictures_of`."""
    import docx

    with reading_package(data, uri, "Word document"):
        document = docx.Document(io.BytesIO(data))
        elements = itertools.chain.from_iterable(map(_pictures, _elements(document)))
        parts = [part for each in elements if has_picture(part := _part(document, each))]
        return pictures_of(parts, uri, pages)


def _pictures(element: Any) -> Iterator[Any]:
    return _outermost(element, _PICTURES, lambda tag: tag not in _SILENT)


def _part(document: Any, picture: Any) -> Any:
    """Return the part of a picture; None if the file does not contain it."""
    return document.part.related_parts.get(picture.get(_PICTURES[picture.tag]))


def _elements(document: Any) -> Iterator[Any]:
    return _outermost(document.element.body, _BLOCKS, _AROUND_BLOCKS.__contains__)


class _Block(NamedTuple):
    """A paragraph, a table or several lines."""

    text: str
    level: int = 0
    """The heading level; 0 if it is no heading."""
    kind: str = ""
    """`item`, `code`, `table`, `picture` or empty."""
    header_rows: int = 0


def _blocks(document: Any, *, pictures: bool) -> Iterator[_Block]:
    """Yield each block that is not empty; with `pictures`, each picture is one.

    Neighboring list items form one block, as do neighboring lines of code.
    """
    styles = {
        style.get(f"{_W}styleId"): style
        for style in document.styles.element.iterchildren(f"{_W}style")
    }
    lines = _lines(document, styles, pictures=pictures)
    for kind, group in itertools.groupby(lines, lambda line: line.kind):
        if kind == "code":
            code = "\n".join(line.text.rstrip() for line in group)
            blocks = [_Block(code.strip("\n"))]
        elif kind == "item":
            texts = (line.text.strip() for line in group)
            blocks = [_Block("\n".join(f"- {text}" for text in texts if text))]
        else:
            blocks = [line._replace(text=line.text.strip()) for line in group]
        for block in blocks:
            if block.text.strip() or block.kind == "picture":
                yield block


def _lines(document: Any, styles: dict[str, Any], *, pictures: bool) -> Iterator[_Block]:
    """Yield paragraphs and tables, each with its pictures below."""
    for element in _elements(document):
        if element.tag == f"{_W}tbl":
            yield _table(element)
        else:
            properties = element.find(f"{_W}pPr")
            style = styles.get(_value(properties, "pStyle"))
            level = _outline_level(properties) or _style_level(style, styles)
            yield _Block(_text(element), level, "" if level else _kind(properties, style))
        for picture in _pictures(element) if pictures else ():
            if has_picture(_part(document, picture)):
                yield _Block("", kind="picture")


def _value(parent: Any, tag: str) -> str:
    """Return the value of a child element; empty if there is none."""
    element = parent.find(f"{_W}{tag}") if parent is not None else None
    return str(element.get(f"{_W}val", "")) if element is not None else ""


def _kind(properties: Any, style: Any) -> str:
    name = _value(style, "name")
    if _CODE_NAME.fullmatch(name):
        return "code"
    listed = properties is not None and properties.find(f"{_W}numPr") is not None
    return "item" if listed or name.lower().startswith("list ") else ""


def _outermost(
    parent: Any, tags: Collection[str], enters: Callable[[str], bool] = lambda _: True
) -> Iterator[Any]:
    """Yield the elements with these tags, in order, and none inside of them.

    Args:
        parent: the element to search.
        tags: of the elements to yield.
        enters: returns whether to search elements with another tag.
    """
    waiting = list(reversed(parent))
    while waiting:
        element = waiting.pop()
        if element.tag in tags:
            yield element
        elif enters(element.tag):
            waiting.extend(reversed(element))


def _style_level(style: Any, styles: dict[str, Any]) -> int:
    """Return a style's heading level, possibly from the style it is based on; 1 for titles."""
    for _ in range(10):  # a style may be based on itself
        if style is None:
            break
        name = _value(style, "name")
        if _TITLE_NAME.fullmatch(name):
            return 1
        if heading := _HEADING_NAME.fullmatch(name):
            number, letter = heading.groups()
            return int(number) if number else "abcdefgh".index(letter.lower()) + 2
        if level := _outline_level(style.find(f"{_W}pPr")):
            return level
        style = styles.get(_value(style, "basedOn"))
    return 0


def _outline_level(properties: Any) -> int:
    """Return the level from 1 to 9, or 0 for body text; the format stores 0 to 8 for levels."""
    value = _value(properties, "outlineLvl")
    return int(value) + 1 if value in tuple("012345678") else 0


def _table(table: Any) -> _Block:
    """Return a table with a line for each row.

    Nested tables and text boxes are part of a cell's text. The header is the rows that Word repeats
    on each page, or else the first row if it looks like one.
    """
    rows: list[list[str]] = []
    repeated = 0
    for row in table.iterchildren(f"{_W}tr"):
        cells = [
            " ".join(" ".join(map(_text, _outermost(cell, {f"{_W}p"}))).split())
            for cell in row.iterchildren(f"{_W}tc")
        ]
        if any(cells):
            repeated += repeated == len(rows) and _is_repeated(row)
            rows.append(cells)
    text = "\n".join(" | ".join(cells) for cells in rows)
    declared = repeated if repeated < len(rows) else 0
    return _Block(text, kind="table", header_rows=declared or header_rows(rows))


def _is_repeated(row: Any) -> bool:
    properties = row.find(f"{_W}trPr")
    mark = properties.find(f"{_W}tblHeader") if properties is not None else None
    return mark is not None and mark.get(f"{_W}val", "1") not in ("0", "false", "off")


def _text(paragraph: Any) -> str:
    """Return the visible text of a paragraph; deleted text is not in `w:t` elements."""
    visible = _outermost(paragraph, _VISIBLE, lambda tag: tag not in _SILENT)
    return "".join(_MARKS.get(element.tag, element.text or "") for element in visible)
