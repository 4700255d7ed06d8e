"""What a source is: something that lists documents and reads each when asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Content:
    """One document as its source gave it."""

    data: bytes
    media_type: str = ""
    """What the source says it is, as `text/html; charset=utf-8`; empty when it does not say."""
    version: str = ""
    """Given back at the next read, to be told whether the document changed; empty if nobody can
    tell. It means something to the source alone: an ETag, a date."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the source knows about the document, added to the metadata of its passages."""


def plain_metadata(metadata: Mapping[Any, Any]) -> dict[str, Any]:
    """The metadata that filters can use: texts, finite numbers, booleans, and lists of these."""
    return {str(key): value for key, value in metadata.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(not isinstance(one, list) and _is_plain(one) for one in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int)


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One document of a source: its name, and how to read it."""

    uri: str
    read: Callable[[str], Content | Awaitable[Content | None] | None]
    """Called with the version of the last read, or an empty text to have the content anyway. None
    means that the document has not changed since that version. Raises SourceError when it cannot
    be read; it then fails alone. `def` (called in a worker thread) or `async def`."""
    formerly: str = ""
    """The uri that the document had in indexes of earlier versions, where it is another one: a
    document is not missed under the name that it had."""
    skipped: str = ""
    """Why the source passes over it, in a word or two. It is reported and not read."""
    peek: Callable[[int | None], bytes] | None = None
    """Gives the first so many bytes of a document that was found by a pattern, all of it for None;
    raises SourceError if it cannot. One of a kind that no loader reads is then skipped, where one
    that was asked for by its name fails."""


NO_ENDING = "no ending"


def ending_of(uri: str) -> str:
    """How reports call the kind of a document that cannot be read: the ending of its name."""
    _, dot, ending = uri.rpartition("/")[2].rpartition(".")
    return f"{dot}{ending.lower()}" if dot else NO_ENDING


class Source(Protocol):
    """Lists the documents of one declared source.

    It may have `notices`, a list of texts: what reports say of it after `items` has ended.
    """

    @property
    def key(self) -> str:
        """The source's name in ledger and reports; deletes reach only what it enumerates."""
        ...

    def items(self) -> Iterable[SourceItem]:
        """Every document, in a stable order.

        Raises:
            SourceError: when the source cannot be enumerated or has no document. Nothing that
                was ingested from it is deleted then.
        """
        ...
