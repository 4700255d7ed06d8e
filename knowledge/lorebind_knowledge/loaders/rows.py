"""Rows of tables and objects of JSON, with the values that are declared to be metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lorebind_config.errors import SourceError, did_you_mean
from lorebind_knowledge.loaders.marks import Record
from lorebind_knowledge.text.values import typed

MOST_RECORDS = 100_000
"""Maximum number of parts of a document with metadata of their own: each is a passage or more."""


class Columns:
    """The columns of a table that are text, and those that are metadata."""

    def __init__(self, text: Sequence[str], metadata: Sequence[str], header: str) -> None:
        """
        Args:
            text: the names of those that are text, in order; by default all are.
            metadata: the names of those that are metadata.
            header: the row with the names, for messages.
        """
        self._text, self._metadata, self._where = list(text), metadata, header
        self.header: list[str] = []
        """The row with the names; empty before `rows` has read it."""

    def are_in(self, cells: Iterable[str]) -> bool:
        """Return whether a row has any of the names."""
        return not {*self._text, *self._metadata}.isdisjoint(cells)

    def rows(
        self, rows: Iterable[list[str]]
    ) -> Iterator[tuple[list[str], list[str], dict[str, Any] | None]]:
        """Yield names, cells and metadata of each row; no metadata for the header and empty rows.

        The first row with text is the header.

        Raises:
            SourceError: the header does not have a declared column.
        """
        text: list[int] = []
        metadata: dict[str, int] = {}
        for cells in rows:
            values: dict[str, Any] | None = None
            if self.header and any(cells):
                here = {name: "".join(cells[at : at + 1]) for name, at in metadata.items()}
                values = {name: typed(cell) for name, cell in here.items() if cell}
            elif any(cells):
                self.header = cells
                text = [*map(self._index, self._text)]
                metadata = {name: self._index(name) for name in self._metadata}
            if not text:
                yield self.header, cells, values
            else:  # a row can be shorter than the header
                yield self._text, ["".join(cells[at : at + 1]) for at in text], values

    def _index(self, name: str) -> int:
        count = self.header.count(name)
        if count > 1:
            raise SourceError(f"{self._where} has {count} columns {name!r}; rename all but one")
        if not count:
            raise SourceError(f"{self._where} has no column {name!r}; {hint(name, self.header)}")
        return self.header.index(name)


def hint(column: str, columns: Iterable[str]) -> str:
    """Return which columns there are instead of a declared one."""
    return did_you_mean(column, [*filter(None, columns)][:50])


def add_record(records: list[Record], start: int, metadata: Mapping[str, Any], uri: str) -> None:
    """Begin a record, unless it has the metadata of the one before.

    Raises:
        SourceError: the document has too many records.
    """
    if records and records[-1].metadata == metadata:
        return
    if len(records) == MOST_RECORDS:
        raise SourceError(
            f"{uri}: more than {MOST_RECORDS:,} of its rows or objects differ in their metadata; "
            "split the document"
        )
    records.append(Record(start, metadata))


def values_of(value: Any, keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of the keys in an object of JSON; `a.b` is `b` within `a`."""
    values = {key: _value(value, key) for key in keys}
    return {key: inner for key, inner in values.items() if inner is not None}


def _value(value: Any, key: str) -> Any:
    if not isinstance(value, dict):
        return None
    if key in value or "." not in key:
        return value.get(key)
    first, _, rest = key.partition(".")
    return _value(value.get(first), rest)
