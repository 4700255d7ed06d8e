"""Reading, comparing and chunking documents, without embedding them."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import ExitStack, aclosing
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lorebind_config.errors import DocumentLimitError, MissingDependencyError, SourceError
from lorebind_config.languages import AUTO
from lorebind_knowledge.events import kind_of
from lorebind_knowledge.ingest.chunks import chunks_of
from lorebind_knowledge.ingest.metadata import (
    bounded_metadata,
    layered,
    merged_metadata,
    reads_language,
)
from lorebind_knowledge.ingest.prepared import PreparedDocument
from lorebind_knowledge.ingest.recipes import Recipes, signature_of
from lorebind_knowledge.ingest.scans import RECOGNIZED, Scans
from lorebind_knowledge.loaders.base import declared_title, title_of
from lorebind_knowledge.loaders.readers import Readers
from lorebind_knowledge.loaders.registry import begin_load, format_of
from lorebind_knowledge.loaders.textless import check_text, is_refused
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.sources.base import Content, checked_content
from lorebind_knowledge.text.languages import detect_language

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Callable,
        Coroutine,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.enumeration import Enumeration, Listed
    from lorebind_knowledge.ingest.prepared import PlannedDocuments
    from lorebind_knowledge.loaders.base import LoadedDocument
    from lorebind_knowledge.sources.base import SourceItem

T = TypeVar("T")

_TEXT_AT_ONCE = 2_000_000
"""Number of characters of chunks that completes a group of documents, even a small one."""

_UNCHANGED_AT_ONCE = 1000

_MOST_FETCHED = 64
"""Remote documents that are fetched concurrently, and then in memory together."""

_BEGUN_FOR_EACH = 2
"""Documents started per reading process, so that one slow document does not leave others idle."""


async def prepare_documents(
    corpus: Corpus,
    enumeration: Enumeration,
    entries: Iterable[DocumentEntry],
    at_once: int = 16,
    *,
    keep_in: PlannedDocuments | None = None,
    planned: PlannedDocuments | None = None,
) -> AsyncGenerator[list[PreparedDocument], None]:
    """Yield groups of all listed documents; unreadable documents fail one by one.

    Groups of long documents are smaller. Documents whose listed version is that of the last read
    are not read. Others are read when their turn comes. Remote documents are fetched concurrently,
    `at_once` at a time, up to a limit; local ones are read in the thread that chunks their group. A
    plan passes `keep_in`, which is filled with the read documents, and the ingest after it passes
    the same object as `planned`. `entries` are all documents of the index, sorted by uri.
    """
    listed = enumeration.compared(entries)
    with ExitStack() as stack:
        readers = stack.enter_context(Readers(corpus.loading.limits))
        scans = Scans(corpus, readers, plans=keep_in is not None)
        stack.enter_context(scans.recognizer)
        preparer = _Preparer(corpus, readers, scans, enumeration, keep_in, planned)

        def stop() -> None:
            readers.stop()
            scans.recognizer.stop()

        while True:
            unchanged, some = await call(preparer.take, listed, at_once)
            if not (unchanged or some):
                return
            if unchanged:
                yield unchanged
            fetching = (reading for reading in some if reading.is_remote)
            preparer.fetched = dict(await asyncio.gather(*map(preparer.fetch, fetching)))
            while some:
                prepared = await stopping(stop, call(preparer.prepare, some))
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


async def stopping(stop: Callable[[], None], work: Coroutine[Any, Any, T]) -> T:
    """Await work in a thread; if cancelled, call `stop`, which makes the work end early."""
    task = asyncio.ensure_future(work)
    try:
        # Its thread goes on in any case, so the task has to stay, to be awaited below.
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
        scans: Scans,
        enumeration: Enumeration,
        keep_in: PlannedDocuments | None,
        planned: PlannedDocuments | None,
    ) -> None:
        self._corpus = corpus
        self._keep_in, self._planned = keep_in, planned
        self._readers, self._scans = readers, scans
        self._enumeration = enumeration
        self._recipes = Recipes(corpus, scans)
        self.fetched: dict[str, Content | SourceError | None] = {}
        """Results that were fetched in advance, by uri."""

    def take(
        self, listed: Iterator[Listed], at_once: int
    ) -> tuple[list[PreparedDocument], list[_Document]]:
        """Return the next documents: those that need not be read, and a group to read."""
        unchanged: list[PreparedDocument] = []
        some: list[_Document] = []
        remote = 0
        for document in listed:
            entry = document.entry
            version = document.version
            if (
                version
                and entry
                and entry.version == version
                and self._version_to_ask_for(entry, document.source)
            ):
                unchanged.append(self._unchanged(document.source, entry, version, entry.recipe))
            else:
                item = self._enumeration.item(document)
                some.append(_Document(document.source, item, entry))
                remote += some[-1].is_remote
            if len(some) == at_once or remote == _MOST_FETCHED:
                break
            if len(unchanged) == _UNCHANGED_AT_ONCE:
                break
        return unchanged, some

    async def fetch(self, document: _Document) -> tuple[str, Content | SourceError | None]:
        uri = document.item.uri
        version = self._version_to_ask_for(document.entry, document.source)
        content: Content | SourceError | None
        try:
            if self._planned and self._planned.has_fetched(uri, version):
                return uri, await call(self._planned.fetched, uri)
            content = await call(document.item.read, version)
        except SourceError as error:
            content = error
        if self._keep_in:
            await call(self._keep_in.keep_fetched, uri, content)
        return uri, content

    def prepare(self, some: Sequence[_Document]) -> list[PreparedDocument]:
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
            elif (document := next(listed, None)) is not None:
                begun.append(self._begin(document))
            else:
                break
        return prepared + [self._finish(reading) for reading in begun]

    def _version_to_ask_for(self, entry: DocumentEntry | None, source: str) -> str:
        """Return the stored version for the source to compare, or an empty text if unusable."""
        if entry is None or not self._is_accepted(entry, source):
            return ""
        return entry.version if entry.recipe == self._recipes.of(entry.uri, source) else ""

    def _is_accepted(self, entry: DocumentEntry, source: str) -> bool:
        """Return whether a document is ready, and still would be if it was read again."""
        if entry.state != "ready" or not entry.textless_parts:  # most documents have no such parts
            return entry.state == "ready"
        policy = self._on_textless(source)
        # Without chunks, a document may have text that its steps omitted.
        has_text = entry.chunk_count > 0 or bool(self._corpus.steps.versions(entry.uri))
        return not is_refused(policy, entry.format, entry.textless, has_text=has_text)

    def _on_textless(self, source: str) -> str:
        return self._corpus.settings_of(source).on_textless_pages

    def _begin(self, document: _Document) -> PreparedDocument | _Reading:
        """Read and compare a document; chunk it, or start reading it in another process."""
        item, uri = document.item, document.item.uri
        version = self._version_to_ask_for(document.entry, document.source)
        try:
            content: Any
            if uri in self.fetched:
                content = self.fetched.pop(uri)
            elif self._planned and self._planned.has_fetched(uri, version):
                content = self._planned.fetched(uri)
            else:
                content = item.read(version)
                # A local file is quickly read again: it has no version, or listing told it.
                is_remote = content is None or bool(getattr(content, "version", ""))
                if self._keep_in and is_remote and not item.version:
                    self._keep_in.keep_fetched(uri, content)
            return self._compared(document, content)
        except (SourceError, MissingDependencyError) as error:
            return _failed(document, error)

    def _compared(self, document: _Document, content: Any) -> PreparedDocument | _Reading:
        source, uri, entry, corpus = (
            document.source,
            document.item.uri,
            document.entry,
            self._corpus,
        )
        if isinstance(content, SourceError):
            raise content
        if content is None and entry is not None and self._version_to_ask_for(entry, source):
            return self._unchanged(source, entry, entry.version, entry.recipe)
        content = checked_content(content, uri)
        form = format_of(content.data, uri, content.media_type)
        recipe = self._recipes.of(uri, source, form)
        signature = signature_of(content, recipe)
        if entry and self._is_accepted(entry, source) and entry.signature == signature:
            unchanged = self._unchanged(
                source, entry, content.version, self._recipes.of(uri, source)
            )
            return unchanged._replace(modified=content.modified)
        if (entry and entry.refused) or corpus.loading.exceeded:
            key = corpus.loading.key(uri, signature)
            refused = entry.reason if entry and entry.refused == key else ""
            if reason := refused or corpus.loading.exceeded.get(key, ""):
                return _failed(document, DocumentLimitError(reason), refused=key)
        read = self._planned.document(uri, signature) if self._planned else None
        if read is not None and form in RECOGNIZED:  # a plan recognizes no page
            self._scans.forget(uri)
        if isinstance(read, PreparedDocument):
            return read._replace(
                action=_action(entry),
                source=source,
                version=content.version,
                modified=content.modified,
                entry=entry,
            )
        loaded: LoadedDocument | Future[LoadedDocument]
        if read is not None:
            loaded = read
        else:
            begin: Callable[..., Future[LoadedDocument]] = self._readers.begin
            kind, html = content.media_type, corpus.html_extractor
            tables, declared = corpus.pdf_tables, content.declared
            pictures = self._scans.reads_pictures(source)
            loaded = begin_load(
                *(content.data, uri, kind, begin, html),
                tables=tables,
                declared=declared,
                pictures=pictures,
            )
        size = len(content.data)
        about = content if form in RECOGNIZED else replace(content, data=b"")
        reading = _Reading(document, uri, signature, about, size, loaded)
        return reading if isinstance(loaded, Future) else self._finish(reading)

    def _finish(self, begun: PreparedDocument | _Reading) -> PreparedDocument:
        if isinstance(begun, PreparedDocument):
            return begun
        corpus, source, unread = self._corpus, begun.document.source, 0
        try:
            document = begun.loaded
            if isinstance(document, Future):
                document = document.result()
                data = begun.content.data
                document, unread = self._scans.complete(document, data, begun.uri, source)
            if not unread:
                was_recognized = bool(self._scans.fingerprint(source))
                policy = self._on_textless(source)
                check_text(begun.uri, document, policy, was_recognized=was_recognized)
        except DocumentLimitError as error:
            key = corpus.loading.key(begun.uri, begun.signature)
            corpus.loading.exceeded[key] = str(error)
            return _failed(begun.document, error, refused=key)
        except (SourceError, MissingDependencyError) as error:
            return _failed(begun.document, error)
        keep_in = None if unread else self._keep_in  # an ingest has to read the rest
        if keep_in and corpus.chunker.estimates:
            keep_in.keep(begun.uri, begun.signature, document, len(document.text))
        try:
            prepared = self._chunked(begun, document)
        except (SourceError, MissingDependencyError) as error:
            return _failed(begun.document, error)
        if keep_in and not corpus.chunker.estimates:
            size = sum(chunk.size for chunk in prepared.chunks)
            keep_in.keep(begun.uri, begun.signature, prepared, size)
        return prepared._replace(pages_to_recognize=unread) if unread else prepared

    def _chunked(self, begun: _Reading, document: LoadedDocument) -> PreparedDocument:
        """Return a document in chunks, after all that changes its text.

        Raises:
            SourceError, MissingDependencyError: a step or the chunker failed.
        """
        corpus, uri, textless_parts = self._corpus, begun.uri, document.textless_parts
        if corpus.remove_html:
            from lorebind_knowledge.loaders.html.removal import without_html  # few remove it

            document = without_html(document)
        title = declared_title(begun.content.metadata.get("title"))
        document = replace(
            document,
            title=title or document.title,  # prefer the source's title to the document's
            metadata=merged_metadata(document, begun.content, corpus.metadata),
        )
        documents: list[LoadedDocument] = []
        notices: list[str] = []

        def bounded(metadata: Mapping[str, Any]) -> dict[str, Any]:
            every = layered(metadata, corpus.metadata)
            values, notice = bounded_metadata(every, begun.content.declared)
            notices.extend([notice] if notice else ())
            return values

        for part in corpus.steps.apply(document, uri):
            metadata = bounded(part.metadata)
            records = [row._replace(metadata=bounded(row.metadata)) for row in part.records]
            documents.append(replace(part, metadata=metadata, records=tuple(records)))
        if notices:
            corpus.omissions.add(f"the metadata of {uri} {notices[0]}")
        chunks = list(chunks_of(corpus, uri, documents))
        language = corpus.language
        if language == AUTO:
            language = detect_language("\n".join(chunk.text for chunk in chunks))
        if reads_language(begun.content):
            about = {"language": language}
            chunks = [chunk._replace(metadata={**about, **chunk.metadata}) for chunk in chunks]
        return PreparedDocument(
            uri,
            begun.document.source,
            _action(begun.document.entry),
            title=documents[0].title if documents else title_of(uri),
            language=language,
            signature=begun.signature,
            chunks=chunks,
            version=begun.content.version,
            recipe=self._recipes.of(uri, begun.document.source),
            textless_parts=textless_parts,
            format=document.format,
            size=begun.size,
            modified=begun.content.modified,
            reports_textless=self._on_textless(begun.document.source) != "ignore",
            entry=begun.document.entry,
        )

    def _unchanged(
        self, source: str, entry: DocumentEntry, version: str, recipe: str
    ) -> PreparedDocument:
        return PreparedDocument(
            entry.uri,
            source,
            "unchanged",
            title=entry.title,
            signature=entry.signature,
            version=version,
            recipe=recipe,
            textless_parts=entry.textless,
            modified=entry.modified,
            reports_textless=not entry.textless_parts or self._on_textless(source) != "ignore",
            entry=entry,
        )


class _Document(NamedTuple):
    """A document to read, with its row in the ledger if it has one."""

    source: str
    item: SourceItem
    entry: DocumentEntry | None

    @property
    def is_remote(self) -> bool:
        return iscoroutinefunction(self.item.read)


class _Reading(NamedTuple):
    """A new or changed document that is being read."""

    document: _Document
    uri: str
    signature: str
    content: Content
    """The result of the source; without the bytes, unless its pages can be drawn."""
    size: int
    """The number of bytes."""
    loaded: LoadedDocument | Future[LoadedDocument]


def _action(entry: DocumentEntry | None) -> str:
    return "updated" if entry and entry.generation else "added"


def _failed(
    document: _Document, error: SourceError | MissingDependencyError, *, refused: str = ""
) -> PreparedDocument:
    return PreparedDocument(
        document.item.uri,
        document.source,
        "failed",
        reason=str(error),
        kind=kind_of(error),
        refused=refused,
        entry=document.entry,
    )
