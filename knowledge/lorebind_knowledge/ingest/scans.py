"""Recognize the text of scanned pages and of pictures within documents during an ingest.

Pictures are drawn by the processes that read documents. One process of its own recognizes
their text, because that takes much more memory and time.
"""

from __future__ import annotations

import importlib.metadata
from collections import defaultdict
from typing import TYPE_CHECKING

from lorebind_config.declarations.sources import LoadingDeclaration, OcrSettings
from lorebind_config.errors import MissingDependencyError, SourceError
from lorebind_config.namespace import digest
from lorebind_knowledge.catalog.recognized import RecognizedPage
from lorebind_knowledge.loaders.formats import can_recognize
from lorebind_knowledge.loaders.readers import Readers
from lorebind_knowledge.loaders.registry import WITH_PICTURES
from lorebind_knowledge.loaders.scans.recognized import count_pictures, with_pages, with_pictures
from lorebind_knowledge.loaders.textless import parts_in_words, ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.loaders.base import LoadedDocument

SCANNED = ("pdf", "image")
"""The formats whose pages can be drawn."""
RECOGNIZED = (*SCANNED, *WITH_PICTURES)
"""The formats in which text is recognized."""

_LIMITS = LoadingDeclaration(max_memory="1500 MiB", max_seconds=60, processes=1)
"""A page takes up to 1.1 GB, and with two free processors about seven seconds."""
_PICTURES_AT_ONCE = 8
"""Each is up to 5 MB."""
_ANY_SETTINGS = OcrSettings()


class Scans:
    """Recognizes pages for one ingest, each once: their texts are stored in the catalog.

    Those of documents that go through steps are not stored, because the steps may remove them. A
    plan recognizes nothing. Methods block.
    """

    def __init__(self, corpus: Corpus, readers: Readers, *, plans: bool) -> None:
        """
        Args:
            corpus: its sources decide which pages are recognized, and its catalog stores the texts.
            readers: the processes that draw pages.
            plans: whether pages are only counted.
        """
        self._corpus, self._readers, self._plans = corpus, readers, plans
        self._namespace, self._store = corpus.kb.namespace, corpus.kb.catalog.recognized
        limits = _LIMITS
        if corpus.loading.limits.processes == 0:
            limits = limits.model_copy(update={"processes": 0})
        self.recognizer = Readers(limits, fixed=True)
        """The process that recognizes pages; it starts with the first one."""
        self._fingerprints: dict[str, str] = {}
        self._models: dict[str, str] = {}

    def fingerprint(self, source: str) -> str:
        """Return the settings that determine the texts of a source's pages; empty if none are read.

        It never raises.
        """
        if source not in self._fingerprints:
            settings, result = self._settings(source), ""
            if settings.when != "never" and can_recognize():
                try:
                    models = self._models_of(settings)
                except (SourceError, OSError) as error:  # reading a page raises it again
                    models = str(error)
                result = digest(settings.when, str(settings.max_pages), models)
            self._fingerprints[source] = result
        return self._fingerprints[source]

    def complete(
        self, document: LoadedDocument, data: bytes, uri: str, source: str
    ) -> tuple[LoadedDocument, int]:
        """Return a document with the texts of its scanned pages, or of the pictures within it.

        If one cannot be recognized, it stays without text, and the report has a notice.

        Args:
            document: the document as its loader returned it.
            data: its bytes.
            uri: its uri.
            source: the key of its source.

        Returns:
            the document, and in a plan the number of pages that an ingest recognizes.

        Raises:
            MissingDependencyError: its source declares `ocr`, and the extra is not installed.
            SourceError: the declared models cannot be used, or no page of it can be recognized.
        """
        settings = self._settings(source)
        pages = self._pages(document, settings)
        kind, fill = (
            ("page", with_pages) if document.format in SCANNED else ("image", with_pictures)
        )
        stores = not self._corpus.steps.versions(uri)
        if document.format in RECOGNIZED and not self._plans and not (pages and stores):
            self.forget(uri)
        if not pages:
            return document, 0
        if not can_recognize():
            if self._corpus.settings_of(source).ocr is None:
                return document, 0
            raise MissingDependencyError(
                f"{uri}: has {parts_in_words({kind: len(pages)})} to recognize, as declared by "
                "`ocr` of its source; "
                "install what it needs with: pip install 'lorebind[ocr]'"
            )
        if self._plans:
            return fill(document, {}, uri), len(pages)
        drawn = self._pictures(document.format, data, uri, pages)
        texts, failures = self._recognized(drawn, uri, settings, stores=stores)
        complete = fill(document, texts, uri)
        if failures and not complete.text.strip():
            raise failures[min(failures)]
        by_reason = defaultdict(list)
        for page, error in sorted(failures.items()):
            by_reason[str(error).removeprefix(f"{uri}: ")].append(page)
        if failures:
            reasons = (
                f"{kind} {ranges(some)}: the text is not recognized: {reason}"
                for reason, some in by_reason.items()
            )
            self._corpus.unrecognized.add(f"{uri}, {'; '.join(reasons)}")
        return complete, 0

    def recognized(self, picture: bytes, source: str) -> RecognizedPage | None:
        """Return what was recognized in a picture of a page; None if it was not.

        Args:
            picture: as the readers draw it.
            source: the key of its source.

        Raises:
            SourceError, OSError: the declared models cannot be read.
        """
        settings = self._settings(source)
        if settings.when == "never" or not can_recognize():
            return None
        return self._store.get(self._namespace, digest(picture, self._models_of(settings)))

    def reads_pictures(self, source: str) -> bool:
        """Return whether pictures within documents are recognized, or fail without the extra."""
        declared = self._corpus.settings_of(source).ocr
        return self._settings(source).when != "never" and (can_recognize() or declared is not None)

    def reads_every_page(self, source: str) -> bool:
        """Return whether pages with a text layer are recognized too."""
        return self._settings(source).when == "always"

    def forget(self, uri: str) -> None:
        """Delete the stored texts of a document."""
        self._store.keep_only(self._namespace, uri, [])

    def _settings(self, source: str) -> OcrSettings:
        return self._corpus.settings_of(source).ocr or _ANY_SETTINGS

    def _pages(self, document: LoadedDocument, settings: OcrSettings) -> Sequence[int]:
        if document.format not in RECOGNIZED or settings.when == "never":
            return ()
        if document.format not in SCANNED:
            return range(1, min(count_pictures(document), settings.max_pages) + 1)
        every = [int(anchor.name) for anchor in document.anchors]
        pages = every if settings.when == "always" else document.textless_pages
        return pages[: settings.max_pages]

    def _recognized(
        self,
        pages: Iterable[tuple[int, bytes | SourceError]],
        uri: str,
        settings: OcrSettings,
        *,
        stores: bool,
    ) -> tuple[dict[int, str], dict[int, SourceError]]:
        """Return the texts by page, and why the other pages could not be read."""
        models = self._models_of(settings)
        folder = str(self._corpus.root / settings.model) if settings.model else ""
        texts: dict[int, str] = {}
        failures: dict[int, SourceError] = {}
        recognized: dict[str, str] = {}
        for page, picture in pages:
            if isinstance(picture, SourceError):
                failures[page] = picture
                continue
            key = digest(picture, models)
            if key not in recognized:  # a document can have a picture many times, such as a logo
                read = self._store.get(self._namespace, key) if stores else None
                try:
                    read = read or self._read(picture, uri, folder, models)
                except SourceError as error:
                    failures[page] = error
                    continue
                if stores:  # each at once, because reading the next one takes seconds
                    self._store.put(self._namespace, uri, key, read)
                recognized[key] = read.text
            texts[page] = recognized[key]
        if stores and not failures:
            self._store.keep_only(self._namespace, uri, recognized)
        return texts, failures

    def _pictures(
        self, form: str, data: bytes, uri: str, pages: Sequence[int]
    ) -> Iterator[tuple[int, bytes | SourceError]]:
        """Yield each page with its picture, or with the reason why there is none."""
        for at in range(0, len(pages), _PICTURES_AT_ONCE):
            some = [*pages[at : at + _PICTURES_AT_ONCE]]
            try:
                drawn = self._readers.begin(form, data, uri, pages=some).result()
            except SourceError as error:
                if len(some) == 1:
                    yield some[0], error
                    continue
                for page in some:  # one of them is at fault
                    yield from self._pictures(form, data, uri, [page])
            else:
                yield from zip(some, drawn, strict=True)

    def _read(self, picture: bytes, uri: str, folder: str, models: str) -> RecognizedPage:
        options = {"model": folder, "version": models}
        read: LoadedDocument = self.recognizer.begin("scan", picture, uri, **options).result()
        return RecognizedPage(read.text, read.metadata["boxes"])

    def _models_of(self, settings: OcrSettings) -> str:
        """Return a digest of the models.

        Raises:
            SourceError: the declared folder lacks a model.
            OSError: it cannot be read.
        """
        # With the reader of PDF, which only the processes that draw pages need.
        from lorebind_knowledge.loaders.scans.recognition import model_files

        written = settings.model or ""
        if written not in self._models:
            version = importlib.metadata.version("rapidocr")
            files = model_files(str(self._corpus.root / written)) if written else {}
            contents = (path.read_bytes() for path in files.values())
            self._models[written] = digest(version, *files, *contents)
        return self._models[written]
