"""A document that was read and cut: what an ingest embeds, and a plan counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.bm25.languages import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.catalog.ledger import DocumentEntry


class Chunk(NamedTuple):
    """A passage on its way into an index."""

    id: str
    text: str
    context: str
    """What it stands under: the title and the headings."""
    metadata: Mapping[str, Any]

    @property
    def embedded_text(self) -> str:
        """What the embedder reads: the passage under its title and headings."""
        return f"{self.context}\n{self.text}"


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document compared with the ledger; one that is new or changed carries its chunks."""

    uri: str
    source: str
    action: str
    """`added`, `updated`, `unchanged` or `failed`: the names that reports count."""
    title: str = ""
    language: str = DEFAULT
    signature: str = ""
    chunks: list[Chunk] = field(default_factory=list)
    reason: str = ""
    kind: str = ""
    """The class of the error, where it failed."""
    version: str = ""
    """What its source calls the version that was read."""
    recipe: str = ""
    """What decided, beside its content, how it was made into chunks."""
    refused: str = ""
    """Where a limit was exceeded: what must change before it is read again, see `Loading.key`."""


def attempts_of(document: PreparedDocument, entry: DocumentEntry | None) -> int:
    """How often a document that failed was tried; one that is refused unread was not."""
    before = entry.attempts if entry else 0
    again = entry is not None and entry.refused and entry.refused == document.refused
    return before if again else before + 1
