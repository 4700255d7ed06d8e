"""What a source is: something that lists documents and reads each when asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One document of a source: its name, and how to read it."""

    uri: str
    read: Callable[[], bytes]
    """Raises SourceError when the document cannot be read; it then fails alone."""


class Source(Protocol):
    """Lists the documents of one declared source."""

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
