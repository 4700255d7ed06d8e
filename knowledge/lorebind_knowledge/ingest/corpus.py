"""The corpus of a knowledge base, and the list of its documents: step one of an ingest."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_config.declarations.sources import SourceBase
from lorebind_config.document_sizes import IMAGES
from lorebind_config.errors import SourceError
from lorebind_config.languages import AUTO
from lorebind_config.namespace import ADDED_SCHEME
from lorebind_knowledge.ingest.enumeration import Enumeration
from lorebind_knowledge.ingest.report import Skipped, SourceReport, Unlisted, skipped_summary
from lorebind_knowledge.loaders.decoding import decode
from lorebind_knowledge.loaders.formats import plugged_suffixes
from lorebind_knowledge.loaders.readers import Loading
from lorebind_knowledge.loaders.registry import can_load
from lorebind_knowledge.sources.base import Content, SourceItem, ending_of
from lorebind_knowledge.transforms.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.chunking.base import Chunker
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.sources.base import Source

ADDED = "added"
"""The key of the source of added documents."""
_LONGEST_START = 8000
"""Number of bytes that tell whether a file is text; binary files have a zero among them."""
_MOST_NOTICES = 20


class DocumentNotices:
    """Notices, at most one for each document: the first ones, and the number of the others."""

    def __init__(self, of_others: str) -> None:
        """
        Args:
            of_others: the notice of further documents; `{}` stands for their number.
        """
        self._first: list[str] = []
        self._of_others, self._others = of_others, 0

    def add(self, notice: str) -> None:
        """Add the notice about another document."""
        if len(self._first) < _MOST_NOTICES:
            self._first.append(notice)
        else:
            self._others += 1

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        if self._others:
            yield self._of_others.format(f"{self._others:,}")


@dataclass(frozen=True)
class Corpus:
    """Everything that an ingest of a knowledge base needs, and a search does not."""

    kb: IndexedKnowledgeBase
    sources: Sequence[Source]
    chunker: Chunker
    metadata: Mapping[str, Any]
    """Metadata copied to every chunk, for filters: tags, owners, or anything else."""
    remove_html: bool = False
    """Whether HTML tags are removed from Markdown and text."""
    steps: Steps = field(default_factory=Steps)
    """Code that changes documents between loading and chunking."""
    language: str = AUTO
    """The language code of its documents, or `AUTO` to detect the language of each document."""
    html_extractor: str = "built_in"
    """The extractor of the main content of HTML pages, see `HtmlDeclaration`."""
    pdf_tables: bool = False
    """Whether tables of PDF are read as rows, see `PdfDeclaration`."""
    declared: Mapping[str, SourceBase] = field(default_factory=dict)
    """The declarations of sources, by the key of the source."""
    root: Path = Path()
    """The project folder, to which paths in these declarations are relative."""
    unrecognized: DocumentNotices = field(
        default_factory=partial(DocumentNotices, "pages of {} more documents are not recognized")
    )
    """Collects notices about pages whose text is not recognized."""
    loading: Loading = field(default_factory=Loading)
    """The limits on reading one document."""
    large_chunks: bool = False
    """Whether chunks can be larger than those of the default size."""
    token_price: float | None = None
    """The price of embedding a million tokens, if it is known."""
    omissions: DocumentNotices = field(
        default_factory=partial(
            DocumentNotices, "metadata of {} more documents is omitted for such reasons"
        )
    )
    """Collects notices about metadata that is omitted."""

    @property
    def notices(self) -> list[str]:
        """The notices about the documents that were chunked."""
        return [*self.chunker.notices, *self.omissions, *self.unrecognized]

    def settings_of(self, source: str) -> SourceBase:
        """Return the settings of a source by its key: the defaults for added documents."""
        return self.declared.get(source) or SourceBase()


class AddedSource:
    """A source of the documents that were added to a knowledge base by hand."""

    key = ADDED

    def __init__(self, kb: IndexedKnowledgeBase) -> None:
        self._added, self._namespace = kb.catalog.added, kb.namespace

    def items(self) -> list[SourceItem]:
        uris = self._added.uris(self._namespace)
        return [SourceItem(uri, partial(self._read, uri)) for uri in uris]

    def _read(self, uri: str, version: str) -> Content:
        document = self._added.get(self._namespace, uri)
        if document is None:
            raise SourceError(f"{uri}: was deleted in the meantime")
        return Content(document.data, document.media_type, metadata=document.metadata)


def enumerate_corpus(corpus: Corpus, added: Collection[str] | None = None) -> Enumeration:
    """List the documents in the sources of a knowledge base, and those added by hand.

    Args:
        corpus: the knowledge base.
        added: the uris of added documents, to list only these; None lists everything.
    """
    source = AddedSource(corpus.kb)
    if added is not None:
        enumeration = enumerate_sources([source])
        enumeration.keep_only(added)
        return enumeration
    without_images = {
        key for key, declared in corpus.declared.items() if declared.ocr and declared.ocr.is_off
    }
    # Without added documents, reports omit their source.
    sources = [*corpus.sources, *([source] if source.items() else [])]
    return enumerate_sources(sources, without_images)


def find_item(corpus: Corpus, key: str, uri: str) -> SourceItem | None:
    """Return a document of a source as the source lists it now; None if it does not.

    Args:
        corpus: the knowledge base.
        key: the key of the source.
        uri: the uri of the document.

    Raises:
        SourceError: the source cannot be listed.
    """
    sources = [*corpus.sources, AddedSource(corpus.kb)]
    listed = (
        _named(item, source) for source in sources if source.key == key for item in source.items()
    )
    return next((item for item in listed if item.uri == uri and not item.skipped), None)


def enumerate_sources(
    sources: Iterable[Source], without_images: Collection[str] = ()
) -> Enumeration:
    """List every source. A failed source is reported, and the others are listed.

    In the sources whose keys are among `without_images`, images are skipped that no plugin reads.

    Only documents that were added by hand have uris that begin with `added:`. A file of such a name
    is listed as `./added:NAME`.
    """
    result = Enumeration()
    for source in sources:
        skipped: list[Skipped] = []
        unlisted: list[Unlisted] = []
        try:
            images = source.key not in without_images
            count = result.add(source, _documents(source, skipped, unlisted, images=images))
            if not count and (skipped or unlisted):
                raise SourceError(_nothing(skipped, unlisted))
        except SourceError as error:
            result.sources.append(SourceReport(source.key, "failed", 0, str(error), skipped))
            continue
        result.unlisted.update(folder.uri for folder in unlisted)
        notices = list(getattr(source, "notices", ()))
        result.sources.append(SourceReport(source.key, "ok", count, "", skipped, notices, unlisted))
    return result


def _documents(
    source: Source, skipped: list[Skipped], unlisted: list[Unlisted], *, images: bool
) -> Iterator[SourceItem]:
    """Yield the items of documents to read, and collect the others."""
    for listed in source.items():
        item = _named(listed, source)
        if item.unlisted:
            unlisted.append(Unlisted(item.uri, item.unlisted))
        elif item.skipped:
            skipped.append(Skipped(item.uri, item.skipped, _setting(item)))
        elif _is_readable(item, images=images):
            yield item
        else:
            setting = item.setting if _is_text(item) else ""
            skipped.append(Skipped(item.uri, ending_of(item.uri), setting))


def _named(item: SourceItem, source: Source) -> SourceItem:
    """Return an item with the uri that it has in the ledger."""
    if item.uri.startswith(ADDED_SCHEME) and source.key != ADDED:
        return item._replace(uri=f"./{item.uri}")
    return item


def _nothing(skipped: Iterable[Skipped], unlisted: Iterable[Unlisted]) -> str:
    """Return why a source has no documents."""
    reasons = [f"{folder.uri} cannot be listed: {folder.reason}" for folder in unlisted]
    if summary := skipped_summary(skipped):
        reasons.append(f"all that it finds is skipped: {summary}")
    return "; ".join(reasons)


def _setting(item: SourceItem) -> str:
    """Return the setting of a skipped item, unless no loader reads such files."""
    is_folder = item.uri.endswith("/")
    return item.setting if is_folder or can_load(item.uri, lambda size: b"") else ""


def _is_readable(item: SourceItem, *, images: bool) -> bool:
    """Return whether a loader reads the item, or its source was told to read it.

    Without `images`, only plugins read images.
    """
    if not images:
        ending = ending_of(item.uri)
        if ending in IMAGES and ending not in plugged_suffixes():
            return False
    try:
        return item.peek is None or can_load(item.uri, item.peek)
    except SourceError:  # reading the document will raise it again
        return True


def _is_text(item: SourceItem) -> bool:
    """Return whether a document of an unsupported format begins like text."""
    if item.peek is None:
        return False
    try:
        decode(item.peek(_LONGEST_START), item.uri)
    except SourceError:
        return False
    return True
