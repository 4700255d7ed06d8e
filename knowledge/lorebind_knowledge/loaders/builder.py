"""Documents made of blocks, such as paragraphs, slides and cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lorebind_knowledge.loaders.base import MOST_TABLES, LoadedDocument, joined, title_of
from lorebind_knowledge.loaders.marks import Anchor, Heading, Table

PICTURE = "\N{OBJECT REPLACEMENT CHARACTER}"
"""A block that stands for a picture."""


class DocumentBuilder:
    """Collects blocks of text, separated by blank lines, and what starts with them."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._blocks: list[str] = []
        self.headings: list[Heading] = []
        self.anchors: list[Anchor] = []
        self.tables: list[Table] = []
        self.omitted: Counter[str] = Counter()
        """The number of parts without text that are not added, by `PARTS`."""
        self.at = 0
        """Start of the next block."""

    def add(self, block: str, header_rows: int = 0) -> None:
        """Add a block; of a table, the number of its first lines that are the header."""
        if header_rows and len(self.tables) < MOST_TABLES:
            header = "\n".join(block.split("\n", header_rows)[:header_rows])
            self.tables.append(Table(self.at, self.at + len(header), self.at + len(block)))
        self._append(block.replace(PICTURE, " "))

    def add_picture(self) -> None:
        """Add a mark where a picture is, in place of its text."""
        self._append(PICTURE)

    def _append(self, block: str) -> None:
        self._blocks.append(block)
        self.at += len(block) + 2

    def document(
        self, form: str, title: str = "", properties: Mapping[str, Any] | None = None
    ) -> LoadedDocument:
        """Return the document; without a title, the first heading or the file name is the title.

        Raises:
            SourceError: the text would be longer than `MAX_CHARACTERS`.
        """
        text = joined(self._blocks, self._uri, separator="\n\n")
        title = title or (self.headings[0].title if self.headings else title_of(self._uri))
        headings, anchors = tuple(self.headings), tuple(self.anchors)
        tables, omitted = tuple(self.tables), dict(self.omitted)
        return LoadedDocument(
            text,
            title,
            headings,
            format=form,
            anchors=anchors,
            omitted=omitted,
            tables=tables,
            properties=properties or {},
        )
