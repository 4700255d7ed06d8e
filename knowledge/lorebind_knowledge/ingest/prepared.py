"""A document that was read and chunked, for an ingest to embed or a plan to count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.text.languages import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.catalog.ledger import DocumentEntry


class Chunk(NamedTuple):
    """A chunk before it is embedded."""

    id: str
    text: str
    context: str
    """The title and the headings above the text."""
    metadata: Mapping[str, Any]

    @property
    def embedded_text(self) -> str:
        """The embedder's input: the context, then the text."""
        return f"{self.context}\n{self.text}"


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document compared with the ledger; with its chunks if it is new or changed."""

    uri: str
    source: str
    action: str
    """`added`, `updated`, `unchanged` or `failed`, as in the counts of reports."""
    title: str = ""
    language: str = DEFAULT
    signature: str = ""
    chunks: list[Chunk] = field(default_factory=list)
    reason: str = ""
    kind: str = ""
    """The class of the error, if it failed."""
    version: str = ""
    """The source's name for the version that was read."""
    recipe: str = ""
    """A digest of everything except its content that determined its chunks."""
    textless_pages: int = 0
    """The number of its pages without text, as of its last successful read."""
    refused: str = ""
    """If it exceeded a limit: the key that must change before another read, see `Loading.key`."""


def attempts_of(document: PreparedDocument, entry: DocumentEntry | None) -> int:
    """Return the number of attempts to read a failed document, without refusals to read it."""
    before = entry.attempts if entry else 0
    again = entry is not None and entry.refused and entry.refused == document.refused
    return before if again else before + 1
