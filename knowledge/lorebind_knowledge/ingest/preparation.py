"""Reading, comparing and chunking one document: pure work on its bytes, no embedding."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lorebind_knowledge.bridge import call
from lorebind_knowledge.errors import MissingDependencyError, SourceError
from lorebind_knowledge.identity import chunk_id, digest
from lorebind_knowledge.loaders.html_removal import without_html
from lorebind_knowledge.loaders.registry import load_document, loaders_version
from lorebind_knowledge.sources.base import Content

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.enumeration import Enumeration
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.loaders.base import LoadedDocument
    from lorebind_knowledge.sources.base import SourceItem


_TEXT_AT_ONCE = 2_000_000
"""Characters of passages from which a group of documents is complete, however few they are."""


class Chunk(NamedTuple):
    """A passage on its way into the store."""

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
    signature: str = ""
    chunks: list[Chunk] = field(default_factory=list)
    reason: str = ""
    version: str = ""
    """What its source calls the version that was read."""
    recipe: str = ""
    """What decided, beside its content, how it was made into chunks."""


async def prepare_documents(
    kb: KnowledgeBase,
    enumeration: Enumeration,
    known: Mapping[str, DocumentEntry],
    at_once: int = 16,
) -> AsyncIterator[list[PreparedDocument]]:
    """Every listed document, read when its turn comes; one that cannot be read fails alone.

    They come in groups, in the order listed, smaller ones where they are long. Of `at_once`
    documents, those that are fetched are fetched at the same time; those that are read from this
    machine are read in the thread that chunks their group.
    """
    recipe = recipe_of(kb)
    listed = iter(enumeration.items.values())
    while some := list(islice(listed, at_once)):
        versions = {item.uri: _version_to_ask_for(known.get(item.uri), recipe) for _, item in some}
        fetched = dict(
            await asyncio.gather(
                *(
                    _fetch(item, versions[item.uri])
                    for _, item in some
                    if iscoroutinefunction(item.read)
                )
            )
        )
        while some:
            prepared = await call(_prepare_some, kb, recipe, some, versions, fetched, known)
            some = some[len(prepared) :]
            yield prepared


_Fetched: TypeAlias = "Content | SourceError | None"


def _version_to_ask_for(entry: DocumentEntry | None, recipe: str) -> str:
    """What the source is told we have; nothing where that would be of no use to us."""
    usable = entry is not None and entry.state == "ready" and entry.recipe == recipe
    return entry.version if entry is not None and usable else ""


async def _fetch(item: SourceItem, version: str) -> tuple[str, _Fetched]:
    try:
        return item.uri, await call(item.read, version)
    except SourceError as error:
        return item.uri, error


def _prepare_some(
    kb: KnowledgeBase,
    recipe: str,
    some: Sequence[tuple[str, SourceItem]],
    versions: Mapping[str, str],
    fetched: dict[str, _Fetched],
    known: Mapping[str, DocumentEntry],
) -> list[PreparedDocument]:
    """The first of these documents, as many as make a group; what was fetched of them is taken."""
    prepared: list[PreparedDocument] = []
    size = 0
    for source, item in some:
        if size >= _TEXT_AT_ONCE:
            break
        uri, entry = item.uri, known.get(item.uri)
        try:
            content = fetched.pop(uri) if uri in fetched else item.read(versions[uri])
            if isinstance(content, SourceError):
                raise content
            prepared.append(_prepare(kb, recipe, source, uri, content, entry))
        except (SourceError, MissingDependencyError) as error:
            prepared.append(PreparedDocument(uri, source, "failed", reason=str(error)))
        size += sum(len(chunk.text) for chunk in prepared[-1].chunks)
    return prepared


def recipe_of(kb: KnowledgeBase) -> str:
    """What decides, beside a document's content, what its chunks are and say."""
    return digest(chunker_fingerprint(kb), json.dumps(dict(kb.metadata), sort_keys=True))


def chunker_fingerprint(kb: KnowledgeBase) -> str:
    """What decides, beside a document's bytes, which texts are embedded."""
    html = ", without HTML" if kb.remove_html else ""
    return f"{kb.chunker.fingerprint}, loaders {loaders_version()}{html}"


def _prepare(
    kb: KnowledgeBase,
    recipe: str,
    source: str,
    uri: str,
    content: Any,
    entry: DocumentEntry | None,
) -> PreparedDocument:
    if content is None and entry is not None:  # not changed since the version we have
        return PreparedDocument(
            uri,
            source,
            "unchanged",
            entry.title,
            entry.signature,
            version=entry.version,
            recipe=entry.recipe,
        )
    if not isinstance(content, Content):
        raise SourceError(f"{uri}: its source gave {type(content).__name__} instead of a content")
    said = json.dumps(dict(content.metadata), sort_keys=True)
    signature = digest(content.data, content.media_type, said, recipe)
    if entry and entry.state == "ready" and entry.signature == signature:
        return PreparedDocument(
            uri,
            source,
            "unchanged",
            entry.title,
            signature,
            version=content.version,
            recipe=recipe,
        )
    document = load_document(content.data, uri, content.media_type)
    if kb.remove_html:
        document = without_html(document)
    return PreparedDocument(
        uri,
        source,
        "updated" if entry and entry.generation else "added",
        document.title,
        signature,
        list(_chunks(kb, uri, document, content.metadata)),
        version=content.version,
        recipe=recipe,
    )


def _chunks(
    kb: KnowledgeBase, uri: str, document: LoadedDocument, said: Mapping[str, Any]
) -> Iterator[Chunk]:
    shared = {
        **document.metadata,
        **said,
        **kb.metadata,
        "kb_id": kb.id,
        "uri": uri,
        "title": document.title,
    }
    seen: Counter[str] = Counter()
    whole, headings_at = document.text, [heading.start for heading in document.headings]
    for start, end in kb.chunker.split(whole, document.body_start, len(whole), headings_at):
        text = whole[start:end]
        headings = document.heading_path(start)
        path = headings if document.title in headings else [document.title, *headings]
        metadata = {
            **shared,
            "heading": " > ".join(headings),
            **document.span(start, end).as_metadata(),
        }
        identity = chunk_id(kb.namespace, uri, text, seen[text])
        seen[text] += 1
        yield Chunk(identity, text, " > ".join(path), metadata)
