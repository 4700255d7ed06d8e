"""Reading, comparing and chunking one document: pure work on its bytes, no embedding."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.identity import chunk_id, digest
from lorebind_knowledge.loaders.registry import LOADERS_VERSION, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.enumeration import Enumeration
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.loaders.base import LoadedDocument
    from lorebind_knowledge.sources.base import SourceItem


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage on its way into the store."""

    id: str
    text: str
    embedded_text: str
    """What the embedder reads: the passage under its title and headings."""
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document compared with the ledger; one that is new or changed carries its chunks."""

    uri: str
    source: str
    action: str
    """`added`, `updated`, `unchanged` or `failed`: the names that reports count."""
    title: str = ""
    signature: str = ""
    chunks: list[Chunk] = field(default_factory=list)
    reason: str = ""


def prepare_documents(
    kb: KnowledgeBase, enumeration: Enumeration, known: Mapping[str, DocumentEntry]
) -> Iterator[PreparedDocument]:
    """Every listed document, read when its turn comes; one that cannot be read fails alone."""
    for uri, (source, item) in enumeration.items.items():
        try:
            yield _prepare(kb, source, item, known.get(uri))
        except SourceError as error:
            yield PreparedDocument(uri, source, "failed", reason=str(error))


def chunker_fingerprint(kb: KnowledgeBase) -> str:
    """What decides, beside a document's bytes, which texts are embedded."""
    return f"{kb.chunker.fingerprint}, loaders {LOADERS_VERSION}"


def _prepare(
    kb: KnowledgeBase, source: str, item: SourceItem, entry: DocumentEntry | None
) -> PreparedDocument:
    data = item.read()
    metadata = json.dumps(dict(kb.metadata), sort_keys=True)
    signature = digest(data, chunker_fingerprint(kb), metadata)
    if entry and entry.state == "ready" and entry.signature == signature:
        return PreparedDocument(item.uri, source, "unchanged", entry.title, signature)
    document = load_document(data, item.uri)
    chunks = list(_chunks(kb, item.uri, document))
    action = "updated" if entry and entry.generation else "added"
    return PreparedDocument(item.uri, source, action, document.title, signature, chunks)


def _chunks(kb: KnowledgeBase, uri: str, document: LoadedDocument) -> Iterator[Chunk]:
    seen: Counter[str] = Counter()
    for start, end in kb.chunker.split(document.text, document.body_start, len(document.text)):
        text = document.text[start:end]
        headings = document.heading_path(start)
        path = headings if document.title in headings else [document.title, *headings]
        metadata = {
            **document.metadata,
            **kb.metadata,
            "kb_id": kb.id,
            "uri": uri,
            "title": document.title,
            "heading": " > ".join(headings),
            **document.span(start, end).as_metadata(),
        }
        identity = chunk_id(kb.namespace, uri, text, seen[text])
        seen[text] += 1
        yield Chunk(identity, text, f"{' > '.join(path)}\n{text}", metadata)
