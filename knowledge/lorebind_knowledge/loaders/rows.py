"""Rows of tables and objects of JSON, with the values that are declared to be metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lorebind_config.errors import SourceError, did_you_mean
from lorebind_knowledge.loaders.base import Record
from lorebind_knowledge.text.values import typed

MOST_RECORDS = 100_000
"""Maximum number of parts of a document with metadata of their own: each is a passage or more."""


class Columns:
    """The columns of a table that are text, and those that are metadata."""

    def __init__(self, text: Sequence[str], metadata: Sequence[str], uri: str) -> None:
        """Declare them by their names, in order; without names for the text, all columns are."""
        self._text, self._metadata, self._uri = list(text), metadata, uri

    def rows(
        self, rows: Iterable[list[str]]
    ) -> Iterator[tuple[list[str], list[str], dict[str, Any] | None]]:
        """Yield names, cells and metadata of each row; no metadata for the header and empty rows.

        The first row with text is the header.

        Raises:
            SourceError: the header does not have a declared column.
        """
        header: list[str] = []
        text: list[int] = []
        metadata: dict[str, int] = {}
        for cells in rows:
            values: dict[str, Any] | None = None
            if header and any(cells):
                here = {name: "".join(cells[at : at + 1]) for name, at in metadata.items()}
                values = {name: typed(cell) for name, cell in here.items() if cell}
            elif any(cells):
                header = cells
                text = [self._index(header, name) for name in self._text]
                metadata = {name: self._index(header, name) for name in self._metadata}
            if not text:
                yield header, cells, values
            else:  # a row can be shorter than the header
                yield self._text, ["".join(cells[at : at + 1]) for at in text], values

    def _index(self, header: list[str], name: str) -> int:
        if header.count(name) != 1:
            columns = list(filter(None, header))
            what = "several columns" if name in header else "no column"
            hint = did_you_mean(name, columns[:50])
            raise SourceError(f"{self._uri}: its first row has {what} {name!r}; {hint}")
        return header.index(name)


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
