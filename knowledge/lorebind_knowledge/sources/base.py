"""The source protocol: a source lists documents and reads each of them on request."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Content:
    """A document as its source returned it."""

    data: bytes
    media_type: str = ""
    """Media type according to the source, such as `text/html; charset=utf-8`; empty if unknown."""
    version: str = ""
    """Passed to the next read, so that the source can tell whether the document changed.

    Only the source interprets it, for example an ETag or a date. Empty if the source has no
    versions.
    """
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the source has for the document, added to the metadata of its passages."""


def plain_metadata(metadata: Mapping[Any, Any]) -> dict[str, Any]:
    """Keep the values that filters can use: strings, finite numbers, booleans, lists of these."""
    return {str(key): value for key, value in metadata.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(not isinstance(one, list) and _is_plain(one) for one in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int)


@dataclass(frozen=True, slots=True)
class SourceItem:
    """A document of a source: its uri, and how to read it."""

    uri: str
    read: Callable[[str], Content | Awaitable[Content | None] | None]
    """Reads the document: `def`, which is called in a worker thread, or `async def`.

    It is called with the version of the last read, or with an empty string to read the content in
    any case. It returns None if the document has not changed since that version, and raises
    SourceError if the document cannot be read; then only that document fails.
    """
    skipped: str = ""
    """Why the source skips it, in a word or two; it is then reported but not read."""
    setting: str = ""
    """The setting of the source with which a skipped item is read; empty if there is none.

    For an item that is not skipped: the setting with which it is read if no loader reads its
    format, but it is text.
    """
    unlisted: str = ""
    """Why the source cannot list this folder, whose uri ends with `/`.

    It is reported, and documents in the index whose uris begin with that uri are not deleted.
    """
    peek: Callable[[int | None], bytes] | None = None
    """Returns the first bytes of a document, at most as many as given, or all of them for None.

    Set for documents that were found by a pattern: they are skipped if no loader reads their
    format. Documents without it were requested by name, so they fail instead. Raises SourceError if
    the document cannot be read.
    """


def ending_of(uri: str) -> str:
    """Return a document's file extension, which reports show for an unsupported format."""
    name, _, ending = uri.rpartition("/")[2].rpartition(".")
    return f".{ending.lower()}" if name and ending else "no extension"


class Source(Protocol):
    """A source, which lists the documents of one declared source.

    It may have an attribute `notices`, a list of strings that reports show after `items` has ended.
    """

    @property
    def key(self) -> str:
        """The name of the source in the ledger and in reports.

        An ingest deletes only documents that were ingested under the same key.
        """
        ...

    def items(self) -> Iterable[SourceItem]:
        """Yield all documents in a stable order.

        Raises:
            SourceError: the source cannot be listed or has no documents. Documents that were
                ingested from it are then not deleted.
        """
        ...
