"""Reading, comparing and chunking documents, without embedding them."""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left
from collections import Counter, deque
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import replace
from inspect import iscoroutinefunction
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lorebind_config.errors import DocumentLimitError, MissingDependencyError, SourceError
from lorebind_config.languages import AUTO
from lorebind_config.namespace import chunk_id, digest
from lorebind_knowledge.events import kind_of
from lorebind_knowledge.ingest.prepared import Chunk, PreparedDocument
from lorebind_knowledge.loaders.process.readers import Readers
from lorebind_knowledge.loaders.registry import (
    begin_load,
    is_html,
    loaders_version,
    newer_version,
    trafilatura_version,
)
from lorebind_knowledge.loaders.text import language_of
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.sources.base import Content
from lorebind_knowledge.text.languages import detect_language

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence

    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.chunking.base import Interval
    from lorebind_knowledge.ingest.corpus import Corpus, Enumeration
    from lorebind_knowledge.ingest.prepared import PlannedDocuments
    from lorebind_knowledge.loaders.base import LoadedDocument
    from lorebind_knowledge.sources.base import SourceItem

T = TypeVar("T")

_TEXT_AT_ONCE = 2_000_000
"""Number of characters of chunks that completes a group of documents, even a small one."""

_BEGUN_FOR_EACH = 2
"""Documents started per reading process, so that one slow document does not leave others idle."""


async def prepare_documents(
    corpus: Corpus,
    enumeration: Enumeration,
    entries: Mapping[str, DocumentEntry],
    at_once: int = 16,
    *,
    keep_in: PlannedDocuments | None = None,
    planned: PlannedDocuments | None = None,
) -> AsyncGenerator[list[PreparedDocument], None]:
    """Yield groups of all listed documents, in order; unreadable documents fail one by one.

    Groups of long documents are smaller. Each document is read when its turn comes. Remote
    documents are fetched concurrently, `at_once` at a time; local ones are read in the thread that
    chunks their group. A plan passes `keep_in`, which is filled with the read documents, and the
    ingest after it passes the same object as `planned`.
    """
    listed = iter(enumeration.items.values())
    with Readers(corpus.loading.limits) as readers:
        preparer = _Preparer(corpus, readers, entries, keep_in, planned)
        while some := list(islice(listed, at_once)):
            fetching = (item for _, item in some if iscoroutinefunction(item.read))
            preparer.fetched = dict(await asyncio.gather(*map(preparer.fetch, fetching)))
            while some:
                prepared = await _stopping(readers.stop, call(preparer.prepare, some))
                some = some[len(prepared) :]
                yield prepared


async def read_ahead(
    documents: AsyncGenerator[list[PreparedDocument], None],
    prepared: asyncio.Queue[list[PreparedDocument]],
) -> None:
    """Read documents into a queue while others are embedded; an empty list marks the end."""
    async with aclosing(documents):
        async for some in documents:
            await prepared.put(some)
    await prepared.put([])


async def _stopping(stop: Callable[[], None], work: Coroutine[Any, Any, T]) -> T:
    """Await work in a thread; if cancelled, call `stop`, which makes the work end early."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop()
        await asyncio.gather(task, return_exceptions=True)
        raise


class _Preparer:
    """Prepares the documents of one run."""

    def __init__(
        self,
        corpus: Corpus,
        readers: Readers,
        entries: Mapping[str, DocumentEntry],
        keep_in: PlannedDocuments | None,
        planned: PlannedDocuments | None,
    ) -> None:
        self._corpus = corpus
        self._keep_in, self._planned = keep_in, planned
        self._readers = readers
        self._entries = entries
        self._shared_recipe = recipe_of(corpus)
        extractor = corpus.html_extractor
        self._extractor = "" if extractor == "built_in" else f"{extractor} {trafilatura_version()}"
        self._recipes: dict[tuple[str, str], str] = {}
        """Recipes by the language of source code, and by newer versions of loaders."""
        self.fetched: dict[str, Content | SourceError | None] = {}
        """Results that were fetched in advance, by uri."""

    async def fetch(self, item: SourceItem) -> tuple[str, Content | SourceError | None]:
        uri = item.uri
        content: Content | SourceError | None
        try:
            if self._planned and self._planned.has_fetched(uri, self._version_to_ask_for(uri)):
                return uri, await call(self._planned.fetched, uri)
            content = await call(item.read, self._version_to_ask_for(uri))
        except SourceError as error:
            content = error
        if self._keep_in:
            await call(self._keep_in.keep_fetched, uri, content)
        return uri, content

    def prepare(self, some: Sequence[tuple[str, SourceItem]]) -> list[PreparedDocument]:
        """Prepare the first of these documents, as many as make a group.

        Documents that other processes read are started in advance, to keep these processes busy.
        """
        prepared: list[PreparedDocument] = []
        begun: deque[PreparedDocument | _Reading] = deque()
        size = 0
        listed = iter(some)
        while size < _TEXT_AT_ONCE:
            ready = begun and isinstance(begun[0], PreparedDocument)
            if ready or len(begun) > _BEGUN_FOR_EACH * self._readers.at_once:
                prepared.append(self._finish(begun.popleft()))
                size += sum(len(chunk.text) for chunk in prepared[-1].chunks)
            elif (entry := next(listed, None)) is not None:
                begun.append(self._begin(*entry))
            else:
                break
        return prepared + [self._finish(document) for document in begun]

    def _version_to_ask_for(self, uri: str) -> str:
        """Return the stored version for the source to compare, or an empty text if unusable."""
        entry = self._entries.get(uri)
        usable = entry is not None and entry.state == "ready" and entry.recipe == self._recipe(uri)
        return entry.version if entry is not None and usable else ""

    def _recipe(self, uri: str, content: Content | None = None) -> str:
        """Return the recipe of one document; for source code, with its language's chunking.

        While its content is unknown, a document counts as HTML, so that the source returns the
        content again when the HTML extractor changes.
        """
        language, newer = language_of(uri), newer_version(uri)
        recipe = self._recipes.get((language, newer), "")
        if not recipe:
            declared = self._corpus.chunker
            chunker = declared.for_language(language)
            more = [newer, chunker.fingerprint if chunker is not declared else ""]
            recipe = digest(self._shared_recipe, *more) if any(more) else self._shared_recipe
            self._recipes[language, newer] = recipe
        if self._extractor and (content is None or is_html(content.data, uri, content.media_type)):
            recipe = digest(recipe, self._extractor)
        return recipe

    def _begin(self, source: str, item: SourceItem) -> PreparedDocument | _Reading:
        """Read and compare a document; chunk it, or start reading it in another process."""
        uri = item.uri
        try:
            content: Any
            if uri in self.fetched:
                content = self.fetched.pop(uri)
            elif self._planned and self._planned.has_fetched(uri, self._version_to_ask_for(uri)):
                content = self._planned.fetched(uri)
            else:
                content = item.read(self._version_to_ask_for(uri))
                # A document without a version is a local file, which is quickly read again.
                has_version = content is None or bool(getattr(content, "version", ""))
                if self._keep_in and has_version:
                    self._keep_in.keep_fetched(uri, content)
            return self._compared(source, uri, content)
        except (SourceError, MissingDependencyError) as error:
            return _failed(source, uri, error)

    def _compared(self, source: str, uri: str, content: Any) -> PreparedDocument | _Reading:
        entry, corpus = self._entries.get(uri), self._corpus
        if isinstance(content, SourceError):
            raise content
        if content is None and entry is not None and self._version_to_ask_for(uri):
            return _unchanged(source, entry)
        if not isinstance(content, Content):
            raise SourceError(
                f"{uri}: its source returned {type(content).__name__}, expected Content"
            )
        metadata = json.dumps(dict(content.metadata), sort_keys=True) if content.metadata else "{}"
        signature = digest(content.data, content.media_type, metadata, self._recipe(uri, content))
        if entry and entry.state == "ready" and entry.signature == signature:
            return _unchanged(
                source, entry._replace(version=content.version, recipe=self._recipe(uri))
            )
        if (entry and entry.refused) or corpus.loading.exceeded:
            key = corpus.loading.key(uri, signature)
            refused = entry.reason if entry and entry.refused == key else ""
            if reason := refused or corpus.loading.exceeded.get(key, ""):
                return _failed(source, uri, DocumentLimitError(reason), refused=key)
        read = self._planned.document(uri, signature) if self._planned else None
        if isinstance(read, PreparedDocument):
            return replace(read, action=_action(entry), source=source, version=content.version)
        document: LoadedDocument | Future[LoadedDocument] | None = read
        if document is None:
            begin, extractor = self._readers.begin, corpus.html_extractor
            document = begin_load(content.data, uri, content.media_type, begin, extractor)
        reading = _Reading(source, uri, signature, content.metadata, content.version, document)
        return reading if isinstance(document, Future) else self._finish(reading)

    def _finish(self, begun: PreparedDocument | _Reading) -> PreparedDocument:
        if isinstance(begun, PreparedDocument):
            return begun
        corpus, entry = self._corpus, self._entries.get(begun.uri)
        try:
            document = begun.document
            if isinstance(document, Future):
                document = document.result()
        except DocumentLimitError as error:
            key = corpus.loading.key(begun.uri, begun.signature)
            corpus.loading.exceeded[key] = str(error)
            return _failed(begun.source, begun.uri, error, refused=key)
        except (SourceError, MissingDependencyError) as error:
            return _failed(begun.source, begun.uri, error)
        if self._keep_in and corpus.chunker.estimates:
            self._keep_in.keep(begun.uri, begun.signature, document, len(document.text))
        if corpus.remove_html:
            from lorebind_knowledge.loaders.html.removal import without_html  # few remove it

            document = without_html(document)
        title = begun.metadata.get("title")
        if isinstance(title, str) and title.strip():  # prefer the source's title to the document's
            document = replace(document, title=title.strip())
        chunks = list(_chunks(corpus, begun.uri, document, begun.metadata))
        language = corpus.language
        if language == AUTO:
            language = detect_language("\n".join(chunk.text for chunk in chunks))
        prepared = PreparedDocument(
            begun.uri,
            begun.source,
            _action(entry),
            title=document.title,
            language=language,
            signature=begun.signature,
            chunks=chunks,
            version=begun.version,
            recipe=self._recipe(begun.uri),
            textless_pages=document.textless_pages,
        )
        if self._keep_in and not corpus.chunker.estimates:
            size = sum(chunk.size for chunk in chunks)
            self._keep_in.keep(begun.uri, begun.signature, prepared, size)
        return prepared


class _Reading(NamedTuple):
    """A new or changed document that is being read."""

    source: str
    uri: str
    signature: str
    metadata: Mapping[str, Any]
    version: str
    document: LoadedDocument | Future[LoadedDocument]


def _action(entry: DocumentEntry | None) -> str:
    return "updated" if entry and entry.generation else "added"


def _failed(
    source: str, uri: str, error: SourceError | MissingDependencyError, *, refused: str = ""
) -> PreparedDocument:
    return PreparedDocument(
        uri, source, "failed", reason=str(error), kind=kind_of(error), refused=refused
    )


def _unchanged(source: str, entry: DocumentEntry) -> PreparedDocument:
    return PreparedDocument(
        entry.uri,
        source,
        "unchanged",
        title=entry.title,
        signature=entry.signature,
        version=entry.version,
        recipe=entry.recipe,
        textless_pages=entry.textless_pages,
    )


def recipe_of(corpus: Corpus) -> str:
    """Return a digest of the settings that determine chunks and their metadata."""
    language = [] if corpus.language == AUTO else [corpus.language]
    metadata = json.dumps(dict(corpus.metadata), sort_keys=True)
    return digest(chunker_fingerprint(corpus), metadata, *language)


def chunker_fingerprint(corpus: Corpus) -> str:
    """Return the settings that determine, with a document's bytes, which texts are embedded."""
    html = ", without HTML" if corpus.remove_html else ""
    return f"{corpus.chunker.fingerprint}, loaders {loaders_version()}{html}"


def _chunks(
    corpus: Corpus, uri: str, document: LoadedDocument, source_metadata: Mapping[str, Any]
) -> Iterator[Chunk]:
    shared = {
        **document.metadata,
        **source_metadata,
        **corpus.metadata,
        "kb_id": corpus.kb.id,
        "uri": uri,
        "title": document.title,
    }
    seen: Counter[str] = Counter()
    whole, headings_at = document.text, [heading.start for heading in document.headings]
    chunker = corpus.chunker.for_language(document.language)
    intervals: list[Interval] = []
    for part in document.parts():
        inside = slice(*(bisect_left(headings_at, end) for end in part))
        intervals += chunker.split(whole, *part, headings_at[inside])
    for start, end in intervals:
        text = whole[start:end]
        headings = document.heading_path(start)
        path = headings if document.title in headings else [document.title, *headings]
        metadata = {
            **shared,
            "heading": " > ".join(headings),
            **document.span(start, end).as_metadata(),
        }
        identity = chunk_id(corpus.kb.namespace, uri, text, seen[text])
        seen[text] += 1
        yield Chunk(identity, text, " > ".join(path), metadata)
