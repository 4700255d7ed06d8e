"""Filling a new index with documents, vectors and terms that exist already, as a pack has them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from lorebind_config.namespace import IndexKey, chunk_id
from lorebind_knowledge.catalog import postings, segments
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.copies import Copies, NewChunk
from lorebind_knowledge.catalog.ledger import put_documents
from lorebind_knowledge.stores.base import StoredVector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.copies import CopiedChunk
    from lorebind_knowledge.catalog.indexes import IndexEntry, Manifest
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.catalog.postings_copies import CopiedPassages
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.records import Matrix


class IndexCopy:
    """A new index that is filled: documents, then chunks, then the terms of all chunks.

    No search finds it before it is activated. If it is never finished, the next writer drops it.
    """

    def __init__(self, index: Index, lease: Lease, manifest: Manifest, run_id: str) -> None:
        self._index, self._lease, self._run_id = index, lease, run_id
        self.entry: IndexEntry = index.catalog.ledger.create_index(lease, manifest, "retired")
        self._versions: dict[str, int] = {}
        self._languages: Mapping[str, str] = {}
        self._seen: dict[tuple[str, str], int] = {}
        """How often the last document has had each text."""
        self._uri = ""
        self._hashes = array("q")
        """A hash of the document of each chunk."""
        self._chunks = 0

    def add_documents(self, rows: Sequence[DocumentEntry], languages: Mapping[str, str]) -> None:
        """Write documents, whose chunks follow before other documents.

        Args:
            rows: their rows in the ledger, with the generation `GENERATION` if they are indexed.
            languages: the languages of those that are indexed, by uri.
        """
        with self._index.changing(self._lease, self.entry) as sql:
            self._versions = Copies(sql, self.entry.index_uid).add_versions(languages)
            put_documents(sql, self.entry.key, rows, self._run_id)
        self._languages = languages

    def add_chunks(
        self, chunks: Sequence[CopiedChunk], vectors: Matrix, *, split_words: bool
    ) -> None:
        """Write chunks with their vectors, in the order of their documents and texts.

        Args:
            chunks: the chunks; their numbers are ignored, because they get new ones.
            vectors: their vectors, of length 1 or 0.
            split_words: whether to split the texts into words; if not, `add_postings` follows.
        """
        index, entry = self._index, self.entry
        first = self._chunks + 1
        new = [
            NewChunk(
                self._versions[chunk.uri],
                number,
                self._id_of(entry.key, chunk),
                chunk.context,
                chunk.text,
                chunk.metadata,
            )
            for number, chunk in enumerate(chunks, first)
        ]
        hashes = b"".join(segments.document_hash(chunk.uri) for chunk in chunks)
        self._hashes.extend(np.frombuffer(hashes, "<i8").tolist())
        self._chunks += len(chunks)
        with index.changing(self._lease, entry) as sql:
            Copies(sql, entry.index_uid).add_chunks(new)
            if not index.store.returns_vectors:
                copies = dict(zip(range(first, first + len(new)), vectors, strict=True))
                Chunks(sql, entry.index_uid).keep_vectors(copies)
            if split_words:
                words = [
                    postings.words_of(
                        chunk.number,
                        before.uri,
                        f"{chunk.context}\n{chunk.text}",
                        self._languages[before.uri],
                    )
                    for before, chunk in zip(chunks, new, strict=True)
                ]
                postings.write(sql, entry.index_uid, postings.WORDS, words)
        stored = [
            StoredVector(chunk.number, vector, chunk.text, index.payload(chunk.metadata))
            for chunk, vector in zip(new, vectors, strict=True)
        ]
        if stored:
            index.add_vectors(self._lease, entry, stored)

    def add_passages(self, kind: int, passages: CopiedPassages) -> int:
        """Write the passages of a segment, and return it for `add_postings`."""
        hashes: NDArray[np.int64] = np.frombuffer(self._hashes, np.int64)[passages.numbers - 1]
        none = np.zeros(0, np.int64)
        segment = segments.Segment(passages.numbers, passages.lengths, hashes, none, [])
        with self._index.changing(self._lease, self.entry) as sql:
            return segments.insert_passages(sql, self.entry.index_uid, kind, segment)

    def add_postings(self, segment: int, some: Sequence[segments.TermPostings]) -> None:
        """Write postings of a segment, sorted by term."""
        with self._index.changing(self._lease, self.entry) as sql:
            for terms in some:
                segments.insert_postings(sql, segment, terms)

    def finish(self) -> None:
        """Count what was written, and let the store optimize searches of it."""
        with self._index.changing(self._lease, self.entry) as sql:
            Copies(sql, self.entry.index_uid).finish(self._chunks)
        self._index.note_changes(self.entry, self._chunks)
        self._index.finish_load(self.entry)

    def drop(self) -> None:
        """Remove what was written."""
        self._index.drop(self._lease, self.entry)

    def _id_of(self, key: IndexKey, chunk: CopiedChunk) -> str:
        if chunk.uri != self._uri:
            self._uri, self._seen = chunk.uri, {}
        ordinal = self._seen.get((chunk.uri, chunk.text), 0)
        self._seen[chunk.uri, chunk.text] = ordinal + 1
        return chunk_id(key.namespace, chunk.uri, chunk.text, ordinal)
