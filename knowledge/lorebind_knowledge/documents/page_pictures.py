"""Pictures of the pages of documents, drawn from the bytes that were ingested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import DocumentChangedError, NotFoundError
from lorebind_config.namespace import tenant
from lorebind_knowledge.documents.listing import find_document
from lorebind_knowledge.documents.reading import ingested
from lorebind_knowledge.ingest.corpus import find_item
from lorebind_knowledge.ingest.preparation import stopping
from lorebind_knowledge.ingest.recipes import Recipes, signature_of
from lorebind_knowledge.ingest.scans import SCANNED, Scans
from lorebind_knowledge.loaders.process.readers import Readers
from lorebind_knowledge.loaders.registry import format_of
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.sources.base import Content, checked_content

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase


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
    kb, limits = corpus.kb, corpus.loading.limits
    with kb.threads.lane("read"):
        entry = await call(_entry, kb, document)
    _check_format(entry.uri, entry.format)
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
            form = await call(_check_content, corpus, readers, entry, content)

            def draw() -> bytes:
                begun = readers.begin(form, content.data, entry.uri, pages=[number])
                (picture,) = begun.result()
                return bytes(picture)

            return await stopping(readers.stop, call(draw))


def _entry(kb: IndexedKnowledgeBase, document: str) -> DocumentEntry:
    """Return the row of a document that searches find."""
    uri = find_document(kb.namespace, kb.catalog, document).uri
    with kb.catalog.reading() as sql:
        index = ingested(sql, kb.namespace, kb.catalog)
        entry = kb.catalog.ledger.document_within(sql, index.key, uri)
    if entry is None or not entry.generation:
        raise NotFoundError(f"{uri}: has no pages yet, because it has not been ingested")
    return entry


def _check_content(corpus: Corpus, readers: Readers, entry: DocumentEntry, content: Content) -> str:
    """Return the format of a document as its source returns it now, if it is what was ingested."""
    form = format_of(content.data, entry.uri, content.media_type)
    recipes = Recipes(corpus, Scans(corpus, readers, plans=True))
    if entry.signature != signature_of(content, recipes.of(entry.uri, entry.source, form)):
        raise _changed(entry.uri, "it or the settings of its ingest have changed")
    _check_format(entry.uri, form)
    return form


def _check_format(uri: str, form: str) -> None:
    if form and form not in SCANNED:  # older indexes have no formats
        raise NotFoundError(f"{uri}: has no pages to draw, only PDF and images have; it is {form}")


def _changed(uri: str, why: str) -> DocumentChangedError:
    return DocumentChangedError(f"{uri}: {why} since it was ingested; ingest again")
