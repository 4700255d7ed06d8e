"""List the fields of a knowledge base's metadata, with their values, for filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence  # at run time: the server's schema of answers reads it
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_config.dates import is_date
from lorebind_config.declarations.sources import ValueType  # noqa: TC001  # as above
from lorebind_knowledge.documents.reading import readable_metadata
from lorebind_knowledge.records import OF_ALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.catalog import Catalog

_SHOWN = 20
_MOST_FIELDS = 1_000
_MOST_VALUES = 10_000
"""Limits for documents whose metadata is hostile; further ones are not counted."""
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value of a field."""

    value: str | int | float | bool
    """A text of more than 200 characters is cut there."""
    count: int
    """The number of documents that have it, also in a list."""


@dataclass(frozen=True, slots=True)
class MetadataField:
    """A key of the metadata of documents."""

    key: str
    types: Sequence[ValueType]
    """The types of its values, sorted."""
    count: int
    """The number of documents that have the key."""
    values: Sequence[FieldValue]
    """The most frequent values, at most 20."""


class _Field:
    """The values of one key."""

    def __init__(self) -> None:
        self.count = 0
        self.types: set[ValueType] = set()
        self.values: Counter[tuple[bool, Any]] = Counter()
        """By the value, and whether it is a boolean: for Python, True is 1."""

    def add(self, values: list[Any]) -> None:
        """Add the values that the passages of a document have."""
        self.count += 1
        self.types.update(map(_type, values))
        every = (
            entry for value in values for entry in (value if isinstance(value, list) else [value])
        )
        entries = {
            (isinstance(entry, bool), entry[:_LONGEST] if isinstance(entry, str) else entry)
            for entry in every
            if isinstance(entry, str | int | float)
        }
        for key in entries:
            if key in self.values or len(self.values) < _MOST_VALUES:
                self.values[key] += 1

    def most_frequent(self) -> list[FieldValue]:
        ordered = sorted(self.values.items(), key=lambda item: (-item[1], str(item[0][1])))
        return [FieldValue(value, count) for (_, value), count in ordered[:_SHOWN]]


def _type(value: Any) -> ValueType:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case list():
            return "list"
        case str() if is_date(value):
            return "date"
    return "string"


def list_fields(
    namespace: Namespace, catalog: Catalog, *, where: Mapping[str, Any] = {}
) -> list[MetadataField]:
    """List the keys in the metadata of the documents that searches find, sorted.

    A value counts once for each document that has it in any passage. It reads the metadata of every
    passage, but lists none of `uri`, `title`, `kb_id`, and the places of passages.

    Args:
        namespace: the knowledge base.
        catalog: the catalog that stores it.
        where: a filter; only passages that pass it count.
    """
    fields: dict[str, _Field] = {}
    for _, passages in readable_metadata(namespace, catalog, where=where):
        _add(fields, passages)
    return [
        MetadataField(key, sorted(field.types), field.count, field.most_frequent())
        for key, field in sorted(fields.items())
    ]


def _add(fields: dict[str, _Field], passages: Iterable[Mapping[str, Any]]) -> None:
    values: dict[str, list[Any]] = {}
    for metadata in passages:
        for key, value in metadata.items():
            if key not in OF_ALL:
                seen = values.setdefault(key, [])
                if not seen or seen[-1] != value or type(seen[-1]) is not type(value):
                    seen.append(value)
    for key, seen in values.items():
        if key in fields or len(fields) < _MOST_FIELDS:
            fields.setdefault(key, _Field()).add(seen)
