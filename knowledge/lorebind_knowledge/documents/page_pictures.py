"""Pictures of the pages of documents, drawn from the bytes that were ingested, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lorebind_config.errors import DocumentChangedError, NotFoundError, UsageError
from lorebind_config.namespace import tenant
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.documents.listing import find_document
from lorebind_knowledge.documents.page_boxes import marked_boxes
from lorebind_knowledge.documents.reading import ingested
from lorebind_knowledge.ingest.corpus import find_item
from lorebind_knowledge.ingest.preparation import stopping
from lorebind_knowledge.ingest.recipes import Recipes, signature_of
from lorebind_knowledge.ingest.scans import SCANNED, Scans
from lorebind_knowledge.loaders.readers import Readers
from lorebind_knowledge.loaders.registry import format_of
from lorebind_knowledge.loaders.scans.words import unpacked_boxes
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.sources.base import Content, checked_content

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.loaders.scans.words import PageBox

R = TypeVar("R")


async def page_picture(corpus: Corpus, document: str, number: int) -> bytes:
    """Draw a page of a PDF or of an image within the limits of `loading`, and return it as PNG.

    The document is read again from its source.

    Args:
        corpus: the knowledge base.
        document: its id or uri.
        number: the number of the page, from 1.

    Raises:
        NotFoundError: no such document or page, or it has no pages that can be drawn.
        DocumentChangedError: it is no longer what was ingested.
        MissingDependencyError: the extra `ocr` is not installed.
        SourceError: it cannot be read, or the page cannot be drawn.
    """
    return await _read_again(corpus, document, lambda again: again.page(number))


async def page_boxes(
    corpus: Corpus, document: str, number: int, start: int = 0, end: int | None = None
) -> list[PageBox]:
    """Return where words of a document are on the picture of a page.

    Args:
        corpus: the knowledge base.
        document: its id or uri.
        number: the number of the page, from 1.
        start, end: the part of the document's text, as offsets in characters.

    Raises:
        UsageError: `start` is negative, or `end` is before it.
        LorebindError: as for `page_picture`.
    """
    if start < 0 or (end is not None and end < start):
        raise UsageError(f"start and end are offsets in this order, not {start} and {end}")

    def read(again: _ReadAgain) -> list[PageBox]:
        return marked_boxes(again.words(number), again.chunks(), number, start, end)

    return await _read_again(corpus, document, read)


class _ReadAgain(NamedTuple):
    """A document as its source returns it now, which is what was ingested. Methods block."""

    kb: IndexedKnowledgeBase
    entry: DocumentEntry
    data: bytes
    readers: Readers
    scans: Scans

    def page(self, number: int, form: str = "") -> bytes:
        """Return the picture of a page, or what the readers return for it in another format."""
        form = form or self.entry.format
        (page,) = self.readers.begin(form, self.data, self.entry.uri, pages=[number]).result()
        return bytes(page)

    def words(self, number: int) -> list[PageBox]:
        """Return the words of a page: those of its text layer, or those that OCR recognized."""
        ways = [self._layer, self._recognized] if self.entry.format == "pdf" else [self._recognized]
        if self.scans.reads_every_page(self.entry.source):
            ways.reverse()
        for words in ways:
            if boxes := words(number):
                return boxes
        return []

    def chunks(self) -> list[StoredChunk]:
        with self.kb.catalog.reading() as sql:
            index = ingested(sql, self.kb.namespace, self.kb.catalog)
            return Chunks(sql, index.index_uid).document(self.entry.uri)

    def _layer(self, number: int) -> list[PageBox]:
        return unpacked_boxes(self.page(number, "pdf_words"))

    def _recognized(self, number: int) -> list[PageBox]:
        page = self.scans.recognized(self.page(number), self.entry.source)
        return unpacked_boxes(page.boxes) if page else []


async def _read_again(corpus: Corpus, document: str, read: Callable[[_ReadAgain], R]) -> R:
    """Return what `read` makes of a document, whose pages nothing hides."""
    kb, limits = corpus.kb, corpus.loading.limits
    with kb.threads.lane("read"):
        entry = await call(_entry, kb, document)
    if entry.format not in SCANNED:
        raise NotFoundError(
            f"{entry.uri}: has no pages to draw, only PDF and images have; it is {entry.format}"
        )
    if corpus.steps.versions(entry.uri):  # they may redact
        raise NotFoundError(
            f"{entry.uri}: its pages are not shown, because they have what preprocess.steps may "
            "remove from its text"
        )
    async with corpus.loading.drawing:
        with kb.threads.lane("ingest"), tenant(kb.namespace.tenant), Readers(limits) as readers:
            item = await call(find_item, corpus, entry.source, entry.uri)
            if item is None:
                raise _changed(entry.uri, "it was removed from its source")
            content = checked_content(await call(item.read, ""), entry.uri)
            scans = Scans(corpus, readers, plans=True)
            await call(_check_content, corpus, scans, entry, content)
            again = _ReadAgain(kb, entry, content.data, readers, scans)
            return await stopping(readers.stop, call(read, again))


def _entry(kb: IndexedKnowledgeBase, document: str) -> DocumentEntry:
    """Return the row of a document that searches find."""
    uri = find_document(kb.namespace, kb.catalog, document).uri
    with kb.catalog.reading() as sql:
        index = ingested(sql, kb.namespace, kb.catalog)
        entry = kb.catalog.ledger.document_within(sql, index.key, uri)
    if entry is None or not entry.generation:
        raise NotFoundError(f"{uri}: has no pages yet, because it has not been ingested")
    return entry


def _check_content(corpus: Corpus, scans: Scans, entry: DocumentEntry, content: Content) -> None:
    """Check that a document as its source returns it now is what was ingested."""
    form = format_of(content.data, entry.uri, content.media_type)
    recipes = Recipes(corpus, scans)
    if entry.signature != signature_of(content, recipes.of(entry.uri, entry.source, form)):
        raise _changed(entry.uri, "it or the settings of its ingest have changed")


def _changed(uri: str, why: str) -> DocumentChangedError:
    return DocumentChangedError(f"{uri}: {why} since it was ingested; ingest again")
