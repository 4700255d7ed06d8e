"""Packing: write what searches find of a knowledge base into one file."""

from __future__ import annotations

import base64
import json
import re
import time
from array import array
from collections.abc import Generator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, BinaryIO

from lorebind_config.errors import NotIngestedError, ReadOnlyError, StoreError
from lorebind_knowledge.catalog.copies import Copies
from lorebind_knowledge.packing.archive import (
    ADDED,
    CHUNKS,
    DOCUMENTS,
    TERMS,
    VECTORS,
    WORDS,
    PackWriter,
)
from lorebind_knowledge.plumbing.bridge import call, in_steps
from lorebind_knowledge.text import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.copies import CopiedChunk
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

FORMAT, VERSION = "lorebind-pack", 1

_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s@]*@")
"""The user and the password of an address."""

_DOCUMENTS_AT_ONCE = 500
_VECTORS_AT_ONCE = 1_000

COLUMNS = (
    *("uri", "title", "source", "state", "reason", "attempts"),
    *("signature", "version", "recipe", "refused", "textless_parts"),
    *("format", "size", "modified"),
)
"""The columns of a document in the ledger that a pack has."""


@dataclass(frozen=True, slots=True)
class PackReport:
    """The content of a pack that was written."""

    kb_id: str
    documents: int
    """Number of documents, including those that failed."""
    chunks: int
    added: int
    """Number of documents that were added by hand, which it has as they were added."""
    embedder: str
    """The embedder that has made its vectors."""
    bytes: int
    """The size of the file."""
    seconds: float


async def pack(
    kb: IndexedKnowledgeBase, declaration: Mapping[str, Any], out: BinaryIO
) -> PackReport:
    """Write a knowledge base to a binary stream, which need not be seekable.

    No embedder is called. The lease is held, so that no ingest removes what is being read.

    Args:
        kb: the knowledge base.
        declaration: the resources that declare it, as `export_resources` returns them.
        out: the stream.

    Raises:
        NotIngestedError: nothing has been ingested.
        IngestRunningError: an ingest is running.
        StoreError: an outage, or the store has lost vectors.
    """
    began = time.perf_counter()
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(kb.catalog.hold_lease(kb.namespace, wait=False))
        except ReadOnlyError:  # then nothing writes it
            stack.enter_context(kb.threads.lane("read"))
        before = await call(kb.index.version, kb.namespace)
        entry = await call(kb.catalog.ledger.index, kb.namespace, "active")
        if entry is None:
            raise NotIngestedError(
                f"nothing has been ingested into {kb.id!r}; ingest first: {kb.fill_command}",
                suggestions=[kb.fill_command],
            )
        packing = _Packing(kb, entry, writer := PackWriter(out))
        steps = packing.steps(declaration)
        try:
            async for _ in in_steps(steps):
                pass
        except BaseException:
            writer.abandon()
            steps.close()
            raise
        if await call(kb.index.version, kb.namespace) != before:
            raise StoreError(f"{kb.id!r} was changed while it was packed; pack it again")
    return PackReport(
        kb.id,
        packing.documents,
        len(packing.numbers),
        packing.added,
        entry.manifest.embedder,
        packing.bytes,
        time.perf_counter() - began,
    )


class _Packing:
    """Packs one index. Chunks are sorted by document, and their place is their number."""

    def __init__(self, kb: IndexedKnowledgeBase, entry: IndexEntry, writer: PackWriter) -> None:
        self._kb, self._entry, self._writer = kb, entry, writer
        self.numbers = array("q")
        """The numbers of the vectors of all chunks, in their order."""
        self.documents = self.added = self.bytes = 0

    def steps(self, declaration: Mapping[str, Any]) -> Generator[None]:
        """Write all members, and then the manifest."""
        yield from self._write_documents()
        yield from self._write_chunks()
        yield from self._write_vectors()
        yield from self._write_postings(WORDS)
        if self._entry.manifest.sparse_key and self._entry.manifest.terms_complete:
            yield from self._write_postings(TERMS)
        yield from self._write_added()
        self.bytes = self._writer.finish(self._manifest(declaration))

    def _manifest(self, declaration: Mapping[str, Any]) -> dict[str, Any]:
        about = asdict(self._entry.manifest)
        return {
            "format": FORMAT,
            "version": VERSION,
            "lorebind": version("lorebind"),
            "packed_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "knowledge_base": self._kb.id,
            "documents": self.documents,
            "chunks": len(self.numbers),
            "added": self.added,
            "index": about | {"words": terms.VERSION},
            "declaration": _public(declaration),
        }

    def _write_documents(self) -> Iterator[None]:
        with self._writer.member(DOCUMENTS) as member:
            for some in self._pages():
                with self._kb.catalog.reading() as sql:
                    uris = [entry.uri for entry in some if entry.generation]
                    indexed = Copies(sql, self._entry.index_uid).indexed(uris)
                lines = []
                for entry in some:
                    columns = entry._asdict()
                    about = {name: columns[name] for name in COLUMNS}
                    if (live := indexed.get(entry.uri)) is not None:
                        about |= live._asdict()
                    lines.append(_json(about))
                member.lines(lines)
                self.documents += len(some)
                yield

    def _pages(self) -> Iterator[list[DocumentEntry]]:
        some: list[DocumentEntry] = []
        for entry in self._kb.catalog.ledger.every_document(self._entry.key):
            some.append(entry)
            if len(some) == _DOCUMENTS_AT_ONCE:
                yield some
                some = []
        if some:
            yield some

    def _write_chunks(self) -> Iterator[None]:
        with self._writer.member(CHUNKS) as member:
            for some in self._pages():
                uris = [entry.uri for entry in some if entry.generation]
                after = "", 0
                while True:
                    with self._kb.catalog.reading() as sql:
                        chunks = Copies(sql, self._entry.index_uid).chunks(uris, after)
                    if not chunks:
                        break
                    member.lines(_line(chunk) for _, chunk in chunks)
                    self.numbers.extend(chunk.number for _, chunk in chunks)
                    row, last = chunks[-1]
                    after = last.uri, row
                    yield

    def _write_vectors(self) -> Iterator[None]:
        import numpy as np

        index, space = self._kb.index, self._entry.space
        with self._writer.member(VECTORS) as member:
            for start in range(0, len(self.numbers), _VECTORS_AT_ONCE):
                some = self.numbers[start : start + _VECTORS_AT_ONCE].tolist()
                vectors = index.stored_vectors(self._entry, some)
                if lost := len(some) - len(vectors):
                    raise StoreError(
                        f"{index.store} has lost {lost} or more vectors of {space}; restore them "
                        f"with: {self._kb.ingest_command}",
                        suggestions=[self._kb.ingest_command],
                    )
                matrix = np.stack([vectors[number] for number in some])
                member.write(matrix.astype("<f4").tobytes())
                yield

    def _write_postings(self, name: str) -> Iterator[None]:
        import numpy as np

        from lorebind_knowledge.catalog import postings
        from lorebind_knowledge.catalog.postings_copies import copied

        kind = postings.WORDS if name == WORDS else postings.TERMS
        numbers: NDArray[np.int64] = np.frombuffer(self.numbers, np.int64)
        with self._writer.member(name) as member:
            for part in copied(self._kb.catalog, self._entry.index_uid, kind, numbers):
                member.lines([_json({key: _plain(value) for key, value in part._asdict().items()})])
                yield

    def _write_added(self) -> Iterator[None]:
        added, namespace = self._kb.catalog.added, self._kb.namespace
        with self._writer.member(ADDED) as member:
            for uri in added.uris(namespace):
                document = added.get(namespace, uri)
                if document is not None:
                    data = base64.b64encode(document.data).decode()
                    about = document._asdict() | {"data": data}
                    member.lines([_json(about)])
                    self.added += 1
                    yield


def _public(declared: Any) -> Any:
    """Return a declaration without the passwords of its addresses; other secrets are templates."""
    if isinstance(declared, Mapping):
        return {key: _public(value) for key, value in declared.items()}
    if isinstance(declared, list):
        return [_public(item) for item in declared]
    return _USER.sub(r"\1", declared) if isinstance(declared, str) else declared


def _line(chunk: CopiedChunk) -> str:
    about = _json({"document": chunk.uri, "context": chunk.context, "text": chunk.text})
    return f'{about[:-1]},"metadata":{chunk.metadata}}}'  # it is JSON already


def _plain(value: Any) -> Any:
    return value if isinstance(value, list) else value.tolist()


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _json(value: Any) -> str:
    return _encode(value)
