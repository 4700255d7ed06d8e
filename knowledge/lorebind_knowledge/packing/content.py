"""The content of a pack, checked, because another program may have made it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_config.errors import UsageError
from lorebind_config.namespace import ADDED_SCHEME
from lorebind_knowledge.catalog.added import AddedDocument
from lorebind_knowledge.catalog.copies import GENERATION, CopiedChunk
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.catalog.postings import MAX_WEIGHT
from lorebind_knowledge.catalog.postings_copies import CopiedPassages
from lorebind_knowledge.catalog.segments import TermPostings
from lorebind_knowledge.packing.archive import ADDED, CHUNKS, DOCUMENTS, VECTORS, PackReader
from lorebind_knowledge.packing.pack import COLUMNS, FORMAT, VERSION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix

_DOCUMENTS_AT_ONCE = 500
_CHUNKS_AT_ONCE = 1_000
_ADDED_AT_ONCE = 16

_LONGEST_NAME = 10
"""Characters of the code of a language."""
_LARGEST_DIMENSION = 100_000
_MOST_PASSAGES = 65_536
"""Of a segment, see `postings`."""
_LARGEST_LENGTH = (1 << 32) - 1
_DEEPEST = 32
"""Levels of lists and mappings in metadata. SQLite reads 1,000, and answers are read by others."""

_REQUIRED: Mapping[str, type | tuple[type, ...]] = {
    "start": int,
    "end": int,
    "line_start": int,
    "line_end": int,
    "title": str,
}
_OPTIONAL: Mapping[str, type | tuple[type, ...]] = {
    "page": int,
    "page_end": int,
    "scanned": bool,
    "locator": str,
    "heading": str,
    "time_start": (int, float),
    "time_end": (int, float),
}
"""The metadata of a chunk that citations read, with their types."""


_COUNTS = ("attempts", "size")
_TEXTS = [name for name in COLUMNS if name not in _COUNTS]


class PackedDocument(NamedTuple):
    """A document of a pack."""

    entry: DocumentEntry
    language: str
    chunks: int
    """Number of its chunks, which follow in the order of the documents."""


class PackedChunks(NamedTuple):
    """Some chunks of the documents before, with their vectors."""

    chunks: list[CopiedChunk]
    vectors: Matrix


class PackContent:
    """Reads a pack part by part, and checks each. Methods block, and raise `UsageError`."""

    def __init__(self, reader: PackReader, kb_id: str) -> None:
        """Read the manifest.

        Args:
            reader: the pack.
            kb_id: the id of the knowledge base for which it is read.

        Raises:
            UsageError: it is not valid, or a newer Lorebind has written it.
        """
        self._reader, self._kb_id, manifest = reader, kb_id, reader.manifest
        version = manifest.get("version")
        if manifest.get("format") != FORMAT or type(version) is not int or version < 1:
            raise reader.damaged("its manifest is not that of a pack")
        if version > VERSION:
            raise UsageError(
                f"the pack was written by a newer Lorebind (format {version}, this one knows "
                f"{VERSION}); upgrade with: pip install -U lorebind"
            )
        try:
            self.declaration: Mapping[str, Any] = dict(manifest["declaration"])
            self.documents, self.chunks, self.added = (
                self._count(manifest[name]) for name in ("documents", "chunks", "added")
            )
            about = dict(manifest["index"])
            self.words_version = self._count(about.pop("words"))
            self.index = Manifest(**about)
            for name in Manifest.__slots__:
                if type(getattr(self.index, name)) is not _MANIFEST.get(name, str):
                    raise TypeError
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise reader.damaged("its manifest lacks a value, or has a wrong one") from None
        if not 0 < self.index.dimension <= _LARGEST_DIMENSION:
            raise reader.damaged(f"its vectors have the dimension {self.index.dimension}")

    def has(self, name: str) -> bool:
        """Return whether it has a member."""
        return self._reader.has(name)

    def parts(self) -> Iterator[list[PackedDocument] | PackedChunks]:
        """Yield documents, then their chunks in parts, then further documents, and so on."""
        reader, dimension = self._reader, self.index.dimension
        lines, total = reader.values(CHUNKS), 0
        with reader.member(VECTORS) as stream:
            for documents in self._documents():
                yield documents
                # Not a list: a hostile count of chunks must not fill the memory.
                uris = chain.from_iterable(repeat(doc.entry.uri, doc.chunks) for doc in documents)
                while some := list(islice(uris, _CHUNKS_AT_ONCE)):
                    chunks = [self._chunk(next(lines, {}), uri) for uri in some]
                    total += len(chunks)
                    yield PackedChunks(chunks, self._vectors(stream.read, len(chunks), dimension))
        if next(lines, None) is not None or total != self.chunks:
            raise reader.damaged(f"{CHUNKS}: has other chunks than {DOCUMENTS} counts")

    def postings(self, name: str) -> Iterator[CopiedPassages | TermPostings]:
        """Yield the passages of each segment of a member, each followed by its postings."""
        reader = self._reader
        seen = np.zeros(self.chunks + 1, bool)
        passages, last = 0, ""
        for line in reader.values(name):
            if "numbers" in line:
                numbers = self._numbers(line["numbers"], 1, self.chunks)
                lengths = self._numbers(line.get("lengths"), 0, _LARGEST_LENGTH).astype(np.uint32)
                passages, last = len(numbers), ""
                if not 0 < passages <= _MOST_PASSAGES or len(lengths) != passages:
                    raise reader.damaged(f"{name}: a segment has a wrong number of passages")
                if seen[numbers].any() or len(np.unique(numbers)) < passages:
                    raise reader.damaged(f"{name}: a passage is in two segments")
                seen[numbers] = True
                yield CopiedPassages(numbers, lengths)
            else:
                terms = self._terms(line, name, passages, last)
                last = terms.terms[-1]
                yield terms
        if not seen[1:].all():
            raise reader.damaged(f"{name}: lacks passages")

    def added_documents(self) -> Iterator[list[AddedDocument]]:
        """Yield the documents that were added by hand, a few at a time."""
        some: list[AddedDocument] = []
        total = 0
        for line in self._reader.values(ADDED):
            some.append(self._added(line))
            total += 1
            if len(some) == _ADDED_AT_ONCE:
                yield some
                some = []
        if some:
            yield some
        if total != self.added:
            raise self._reader.damaged(f"{ADDED}: has {total} documents, not {self.added}")

    def _documents(self) -> Iterator[list[PackedDocument]]:
        some: list[PackedDocument] = []
        total, last = 0, None
        for line in self._reader.values(DOCUMENTS):
            document = self._document(line)
            if last is not None and document.entry.uri <= last:
                raise self._reader.damaged(f"{DOCUMENTS}: is not sorted by uri")
            last = document.entry.uri
            some.append(document)
            total += 1
            if len(some) == _DOCUMENTS_AT_ONCE or document.chunks > _CHUNKS_AT_ONCE:
                yield some
                some = []
        if some:
            yield some
        if total != self.documents:
            raise self._reader.damaged(f"{DOCUMENTS}: has {total} documents, not {self.documents}")

    def _document(self, line: Mapping[str, Any]) -> PackedDocument:
        is_indexed = "language" in line
        chunks = self._count(line.get("chunks", 0))
        if not is_indexed and (chunks or line.get("state") == "ready"):
            raise self._reader.damaged(f"{DOCUMENTS}: a document has no language")
        if line.get("state") not in ("ready", "pending", "failed") or chunks > self.chunks:
            raise self._reader.damaged(f"{DOCUMENTS}: a document has a wrong state or count")
        columns: dict[str, Any] = {name: self._text(line.get(name)) for name in _TEXTS}
        columns |= {name: self._count(line.get(name)) for name in _COUNTS}
        entry = DocumentEntry(
            **columns,
            generation=GENERATION if is_indexed else 0,
            chunk_count=chunks,
        )
        language = self._text(line.get("language", ""))
        if len(language) > _LONGEST_NAME or not entry.uri:
            raise self._reader.damaged(f"{DOCUMENTS}: a document has a wrong language or no uri")
        return PackedDocument(entry, language, chunks)

    def _chunk(self, line: Mapping[str, Any], uri: str) -> CopiedChunk:
        if line.get("document") != uri:
            raise self._reader.damaged(f"{CHUNKS}: lacks a chunk of {uri!r}")
        metadata = line.get("metadata")
        if not isinstance(metadata, dict) or not self._is_cited(metadata):
            raise self._reader.damaged(f"{CHUNKS}: a chunk of {uri!r} has wrong metadata")
        context, text = self._text(line.get("context")), self._text(line.get("text"))
        encoded = self._json(metadata | {"kb_id": self._kb_id, "uri": uri})
        return CopiedChunk(uri, 0, context, text, encoded)

    def _is_cited(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether citations can read the metadata of a chunk."""
        return (
            all(_is_a(metadata.get(key), kind) for key, kind in _REQUIRED.items())
            and all(
                _is_a(metadata[key], kind) for key, kind in _OPTIONAL.items() if key in metadata
            )
            and _is_shallow(metadata, _DEEPEST)
        )

    def _vectors(self, read: Any, count: int, dimension: int) -> Matrix:
        data = read(count * dimension * 4)
        vectors: Matrix = np.frombuffer(data, "<f4").reshape(count, dimension)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        if not (np.isclose(lengths, 1, atol=1e-3) | (lengths == 0)).all():
            raise self._reader.damaged(f"{VECTORS}: has vectors whose length is not 1")
        return vectors

    def _terms(self, line: Mapping[str, Any], name: str, passages: int, last: str) -> TermPostings:
        terms = line.get("terms")
        if not isinstance(terms, list) or not terms:
            raise self._reader.damaged(f"{name}: a line has neither passages nor terms")
        for term in terms:
            if "\n" in self._text(term) or not last < term:
                raise self._reader.damaged(f"{name}: terms are not sorted")
            last = term
        counts = self._numbers(line.get("counts"), 1, passages)
        positions = self._numbers(line.get("positions"), 0, passages - 1)
        weights = self._numbers(line.get("weights"), 1, MAX_WEIGHT)
        if len(counts) != len(terms) or not counts.sum() == len(positions) == len(weights):
            raise self._reader.damaged(f"{name}: has another number of postings than it counts")
        return TermPostings(
            terms, counts.astype("<u4"), positions.astype("<u2"), weights.astype(np.uint8)
        )

    def _added(self, line: Mapping[str, Any]) -> AddedDocument:
        uri, metadata = self._text(line.get("uri")), line.get("metadata")
        if not uri.startswith(ADDED_SCHEME) or not isinstance(metadata, dict):
            raise self._reader.damaged(f"{ADDED}: {uri!r} is not an added document")
        if not _is_shallow(metadata, _DEEPEST):
            raise self._reader.damaged(f"{ADDED}: {uri!r} has metadata of too many levels")
        self._json(metadata)
        try:
            data = base64.b64decode(self._text(line.get("data")), validate=True)
        except binascii.Error:
            raise self._reader.damaged(f"{ADDED}: {uri!r} is not base64") from None
        return AddedDocument(uri, data, self._text(line.get("media_type")), metadata)

    def _text(self, value: object) -> str:
        """Check a text: PostgreSQL cannot store NUL, and no database stores half a character."""
        if not isinstance(value, str) or "\0" in value:
            raise self._reader.damaged("a text is missing, or contains the character NUL")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise self._reader.damaged("a text is not valid Unicode") from None
        return value

    def _json(self, value: Mapping[str, Any]) -> str:
        text = json.dumps(value, ensure_ascii=False)
        if "\\u0000" in text.replace("\\\\", ""):
            raise self._reader.damaged("metadata contains the character NUL")
        return self._text(text)

    def _count(self, value: object) -> int:
        if type(value) is not int or not 0 <= value < 1 << 31:
            raise self._reader.damaged("a number is missing or out of range")
        return value

    def _numbers(self, values: object, low: int, high: int) -> NDArray[np.int64]:
        """Return a list of integers as an array."""
        try:
            numbers = np.array(values if isinstance(values, list) else None)
        except (ValueError, OverflowError):
            numbers = np.zeros((), bool)
        if numbers.ndim == 1 and not len(numbers):
            return np.zeros(0, np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind != "i":
            raise self._reader.damaged("expected a list of integers")
        if numbers.min() < low or numbers.max() > high:
            raise self._reader.damaged(f"expected integers from {low} to {high}")
        return numbers.astype(np.int64)


_MANIFEST: Mapping[str, type] = {"dimension": int, "terms_complete": bool}


def _is_a(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _is_shallow(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return levels > 0 and all(_is_shallow(item, levels - 1) for item in value)
