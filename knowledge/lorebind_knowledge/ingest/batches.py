"""Documents and chunks that are written together, since each transaction has a cost of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lorebind_knowledge.catalog.ledger import written_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.prepared import Chunk, PreparedDocument
    from lorebind_knowledge.records import SparseVector, Vector

CHUNKS_PER_WRITE = 1000
"""Maximum number of chunks that are written or removed together. More save hardly any time."""


@dataclass(slots=True)
class PendingDocument:
    """A document whose chunks are being written into the index."""

    document: PreparedDocument
    entry: DocumentEntry
    generation: int
    waiting: int
    """Number of chunks that have not been staged yet."""

    @property
    def ready_entry(self) -> DocumentEntry:
        """Its row in the ledger when all its chunks are staged."""
        document = self.document
        return self.entry._replace(
            state="ready",
            reason="",
            attempts=0,
            refused="",
            signature=document.signature,
            generation=self.generation,
            chunk_count=len(document.chunks),
            version=document.version,
            recipe=document.recipe,
            textless_parts=written_parts(document.textless_parts),
            format=document.format,
            size=document.size,
            modified=document.modified,
        )


Parts: TypeAlias = list[tuple[PendingDocument, "Chunk"]]
"""Chunks that are embedded together, each with its document."""


class EmbeddedChunk(NamedTuple):
    """A chunk that can be written, with its document."""

    pending: PendingDocument
    chunk: Chunk
    vector: Vector
    terms: SparseVector | None


Batches: TypeAlias = "asyncio.Queue[asyncio.Task[list[EmbeddedChunk]] | None]"
"""Batches that are being embedded, in order; None marks the end."""


async def written_together(embedded: Batches) -> AsyncIterator[list[EmbeddedChunk]]:
    """Yield embedded chunks in order, each time all that are ready. None wait for later batches.

    Raises:
        LorebindError: a batch could not be embedded; the batches before it have been yielded.
    """
    chunks: list[EmbeddedChunk] = []
    while (task := await embedded.get()) is not None:
        is_ready = task.done() and not task.cancelled() and task.exception() is None
        if chunks and not (is_ready and len(chunks) + len(task.result()) <= CHUNKS_PER_WRITE):
            yield chunks
            chunks = []
        chunks += await task
        if embedded.empty():
            yield chunks
            chunks = []
    if chunks:
        yield chunks


def in_groups(documents: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Yield uris, each with its number of chunks, in groups for one transaction.

    The size of a group is limited in documents too, because some have no chunks.
    """
    group: list[str] = []
    size = 0
    for uri, chunks in documents:
        if group and size + 1 + chunks > CHUNKS_PER_WRITE:
            yield group
            group, size = [], 0
        group.append(uri)
        size += 1 + chunks
    if group:
        yield group
