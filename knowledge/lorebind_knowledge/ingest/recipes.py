"""Recipes and signatures, which tell whether a document must be read or chunked again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.namespace import digest
from lorebind_knowledge.ingest.chunks import recipe_of
from lorebind_knowledge.ingest.metadata import signed_metadata
from lorebind_knowledge.ingest.scans import RECOGNIZED
from lorebind_knowledge.loaders.base import suffix_of
from lorebind_knowledge.loaders.formats import format_named
from lorebind_knowledge.loaders.registry import library_version, newer_version
from lorebind_knowledge.loaders.text import language_of

if TYPE_CHECKING:
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.scans import Scans
    from lorebind_knowledge.sources.base import Content


class Recipes:
    """The recipes of the documents of a corpus: digests of the settings that make their chunks."""

    def __init__(self, corpus: Corpus, scans: Scans) -> None:
        """
        Args:
            corpus: it has the settings.
            scans: knows the settings and models of OCR.
        """
        self._corpus, self._scans = corpus, scans
        self._shared = recipe_of(corpus)
        self._converters: dict[str, str] = {}
        """Libraries that are declared to convert a format, with their versions."""
        if corpus.html_extractor != "built_in":
            version = library_version(corpus.html_extractor)
            self._converters["html"] = f"{corpus.html_extractor} {version}"
        if corpus.pdf_tables:
            self._converters["pdf"] = f"pdfplumber {library_version('pdfplumber')}"
        self._recipes: dict[tuple[str | None, ...], str] = {}
        """Recipes by source, format, extension and steps."""

    def of(self, uri: str, source: str, form: str | None = None) -> str:
        """Return the recipe of one document; for source code, with its language's chunking.

        While its format is unknown, a document counts as HTML and as PDF, so that the source
        returns the content again when the conversion of these or the settings of OCR change.
        """
        suffix = suffix_of(uri)
        steps = self._corpus.steps.versions(uri) if self._corpus.steps else ()
        key = (source, form, suffix, *steps)
        recipe = self._recipes.get(key)
        if recipe is None:
            recipe = self._recipes[key] = self._computed(uri, source, form, suffix, steps)
        return recipe

    def _computed(
        self, uri: str, source: str, form: str | None, suffix: str, steps: tuple[str, ...]
    ) -> str:
        """Return a recipe: of the uri, only the extension and its language are in it."""
        declared = self._corpus.chunker
        chunker = declared.for_language(language_of(uri))
        more = [newer_version(uri), chunker.fingerprint if chunker is not declared else ""]
        more += steps
        recipe = digest(self._shared, *more) if any(more) else self._shared
        for converted, converter in self._converters.items():
            if form in (None, converted):
                recipe = digest(recipe, converter)
        formats = (None, *RECOGNIZED)
        may_be_scan = (format_named(suffix) or None if form is None else form) in formats
        if may_be_scan and (ocr := self._scans.fingerprint(source)):
            recipe = digest(recipe, ocr)
        return recipe


def signature_of(content: Content, recipe: str) -> str:
    """Return the digest of a document and its recipe: equal ones give equal chunks."""
    return digest(content.data, content.media_type, signed_metadata(content), recipe)
