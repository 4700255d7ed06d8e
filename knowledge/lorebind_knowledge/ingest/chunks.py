"""From loaded documents to chunks, and the settings that determine them."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from lorebind_config.languages import AUTO
from lorebind_config.namespace import chunk_id, digest
from lorebind_knowledge.ingest.prepared import Chunk
from lorebind_knowledge.loaders.registry import loaders_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lorebind_knowledge.chunking.base import Chunker, Interval
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.loaders.base import LoadedDocument


def recipe_of(corpus: Corpus) -> str:
    """Return a digest of the settings that determine chunks and their metadata, without steps."""
    language = [] if corpus.language == AUTO else [corpus.language]
    metadata = json.dumps(dict(corpus.metadata), sort_keys=True)
    return digest(_chunking(corpus), metadata, *language)


def chunker_fingerprint(corpus: Corpus) -> str:
    """Return the settings that determine, with a document's bytes, which texts are embedded."""
    steps = f", steps {corpus.steps}" if corpus.steps else ""
    return f"{_chunking(corpus)}{steps}"


def _chunking(corpus: Corpus) -> str:
    html = ", without HTML" if corpus.remove_html else ""
    return f"{corpus.chunker.fingerprint}, loaders {loaders_version()}{html}"


def chunks_of(corpus: Corpus, uri: str, documents: Iterable[LoadedDocument]) -> Iterator[Chunk]:
    """Yield the chunks of the documents that the steps made of a document.

    Raises:
        SourceError: the chunker failed.
    """
    seen: Counter[str] = Counter()
    for document in documents:
        of_all = {"kb_id": corpus.kb.id, "uri": uri, "title": document.title}
        for start, end in _intervals(corpus.chunker.for_language(document.language), document):
            text = document.text[start:end]
            headings = document.heading_path(start)
            path = headings if document.title in headings else [document.title, *headings]
            metadata = {
                **document.metadata,
                **document.metadata_at(start),
                **of_all,
                "heading": " > ".join(headings),
                **document.span(start, end).as_metadata(),
            }
            identity = chunk_id(corpus.kb.namespace, uri, text, seen[text])
            seen[text] += 1
            # A passage from the middle of a table does not say what its columns are.
            header = document.header_above(start)
            context = "\n".join(filter(None, [" > ".join(path), header]))
            yield Chunk(identity, text, context, metadata)


def _intervals(chunker: Chunker, document: LoadedDocument) -> list[Interval]:
    headings_at = [heading.start for heading in document.headings]
    intervals: list[Interval] = []
    for part in document.parts():
        inside = slice(*(bisect_left(headings_at, end) for end in part))
        intervals += chunker.split(document.text, *part, headings_at[inside])
    return intervals
