"""A small corpus with all its parts, for the tests of ingestion and retrieval."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from lorebind_config.declarations.retrieval import RetrievalDeclaration, WeakLevels
from lorebind_config.namespace import PROJECT_SCOPE, Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.chunks import StoredChunk
from lorebind_knowledge.catalog.indexes import IndexEntry
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.events import Event, Events
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.index.view import View
from lorebind_knowledge.ingest.corpus import Corpus
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.ingest.planning import plan
from lorebind_knowledge.ingest.reindexing import reindex
from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import DocumentMatch, QueryResult
from lorebind_knowledge.retrieval.search import search
from lorebind_knowledge.sources.folder.files import FileSource
from lorebind_knowledge.stores.base import VectorStore


class CountingEmbedder(Embedder):
    """The hashing embedder, which records every batch it receives."""

    def __init__(self, *, batch_size: int = 4, revision: str = "1", dimension: int = 64) -> None:
        self.batch_size = batch_size
        self.batches: list[list[str]] = []
        self.questions: list[str] = []
        self.before_batch: Callable[[int], None] = lambda number: None
        """Called with the number of each batch, from 1; may raise."""
        self._revision = revision
        self._inner = HashingEmbedder(dimension=dimension)

    @property
    def fingerprint(self) -> Fingerprint:
        return replace(self._inner.fingerprint, provider="counting", revision=self._revision)

    @property
    def texts(self) -> list[str]:
        """All received texts, in order."""
        return [text for batch in self.batches for text in batch]

    def forget(self) -> None:
        self.batches.clear()
        self.questions.clear()

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        self.batches.append(list(texts))
        self.before_batch(len(self.batches))
        return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> np.ndarray:
        self.questions.append(text)
        return self._inner.embed_query(text)


def fail_at(batch: int) -> Callable[[int], None]:
    """Return a `before_batch` that fails at the call of this number."""

    def fail(number: int) -> None:
        if number == batch:
            raise RuntimeError("down")

    return fail


class Diary:
    """An extension that records every event, whatever its name."""

    content = False

    def __init__(self) -> None:
        self.entries: list[tuple[str, Event]] = []

    def __getattr__(self, hook: str) -> Callable[[Event], None]:
        return lambda event: self.entries.append((hook, event))

    def names(self) -> list[str]:
        return [hook for hook, _ in self.entries]

    def data(self, hook: str) -> list[Mapping[str, Any]]:
        return [event.data for name, event in self.entries if name == hook]


class Bench:
    """A project folder with documents, and one knowledge base over it."""

    def __init__(self, root: Path, make_parts: Callable[[], tuple[VectorStore, Catalog]]) -> None:
        self.root = root
        self.index = Index(*make_parts())
        self.catalog = self.index.catalog
        self.embedder = CountingEmbedder()
        self.diary = Diary()
        self.events = Events([self.diary])  # type: ignore[list-item]  # it answers to every hook
        kb = IndexedKnowledgeBase(
            id="docs",
            namespace=Namespace("default", "test", PROJECT_SCOPE, "docs"),
            embedder=self.embedder,
            index=self.index,
            retrieval=RetrievalDeclaration(top_k=5),
            events=self.events,
            weak_levels=WeakLevels(0.1),
        )
        self.corpus = Corpus(
            kb=kb,
            sources=[FileSource("markdown_glob", ["docs/**/*.md"], root)],
            chunker=RecursiveChunker(64, 0),
            metadata={},
        )

    @property
    def kb(self) -> IndexedKnowledgeBase:
        """The knowledge base to search, into which the corpus is ingested."""
        return self.corpus.kb

    @kb.setter
    def kb(self, kb: IndexedKnowledgeBase) -> None:
        self.corpus = replace(self.corpus, kb=kb)

    def change(self, **parts: Any) -> None:
        """Declare the knowledge base again, with some parts replaced."""
        of_kb = {field.name for field in fields(IndexedKnowledgeBase)} & set(parts)
        self.kb = replace(self.kb, **{name: parts.pop(name) for name in of_kb})
        self.corpus = replace(self.corpus, **parts)

    def write(self, name: str, *paragraphs: str) -> None:
        self.write_bytes(name, "\n\n".join(paragraphs).encode())

    def write_bytes(self, name: str, data: bytes) -> None:
        path = self.root / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def remove(self, name: str) -> None:
        (self.root / "docs" / name).unlink()

    def move(self, old: str, new: str) -> None:
        (self.root / "docs" / new).parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.root / "docs" / old, self.root / "docs" / new)

    async def ingest(self, **settings: Any) -> IngestReport:
        return await ingest(self.corpus, **settings)

    async def reindex(self, plan: IngestPlan | None = None) -> IngestReport:
        return await reindex(self.corpus, plan)

    async def plan(self, **settings: Any) -> IngestPlan:
        return await plan(self.corpus, **settings)

    async def ask(self, question: str, **settings: Any) -> QueryResult:
        chosen = RetrievalDeclaration(**settings) if settings else self.kb.retrieval
        return await search((self.kb,), question, chosen)

    @property
    def entry(self) -> IndexEntry:
        """The index in use."""
        entry = self.catalog.ledger.index(self.kb.namespace, "active")
        assert entry is not None
        return entry

    async def visible(self) -> list[DocumentMatch]:
        """All chunks that a search can find, sorted by id."""

        def read(view: View) -> list[StoredChunk]:
            return list(view.chunks(view.rows()[1].tolist()).values())

        rows = await call(self.index.read, self.kb.namespace, read)
        matches = [DocumentMatch(row.id, 0.0, 0.0, {}, row.text, row.metadata) for row in rows]
        return sorted(matches, key=lambda match: match.id)

    async def texts(self) -> list[str]:
        """The texts of all visible chunks, sorted."""
        return sorted(match.text for match in await self.visible())


def paragraph(word: str) -> str:
    """Return about fifty characters around a word, so that each text is a separate chunk."""
    return f"{word} {'and some more words ' * 2}{word}."


def counts(**changes: int) -> dict[str, int]:
    """Return the document counts of a report; omitted counts are zero."""
    return dict.fromkeys(("added", "updated", "removed", "unchanged", "failed"), 0) | changes


def chunk_counts(**changes: int) -> dict[str, int]:
    """Return the chunk counts of a report; omitted counts are zero."""
    return dict.fromkeys(("added", "removed", "unchanged", "total"), 0) | changes


def fill(bench: Bench, documents: int = 4) -> None:
    """Write documents `0.md` onwards, each with three chunks."""
    for number in range(documents):
        bench.write(f"{number}.md", *(paragraph(f"word{number}{part}") for part in "abc"))


async def fresh(bench: Bench, make_bench: Callable[[str], Bench]) -> list[Any]:
    """Return what is visible after the same files are ingested into an empty project."""
    other = make_bench("memory")
    shutil.copytree(bench.root / "docs", other.root / "docs", symlinks=True)
    other.change(chunker=bench.corpus.chunker, metadata=bench.corpus.metadata)
    await other.ingest()
    return await other.visible()


def two_sources(bench: Bench, second: str = "more/*.md") -> None:
    bench.change(
        sources=[
            FileSource("markdown_glob", ["docs/**/*.md"], bench.root),
            FileSource("markdown_glob", [second], bench.root),
        ]
    )


WORDS = ("apple", "boat", "cedar", "delta", "ember", "flint", "grove", "harbour", "iris", "juniper")


def text_of(number: int) -> str:
    """Return a passage of words that each also occur in some other passages."""
    words = [WORDS[(number * step + step) % len(WORDS)] for step in (1, 3, 7)]
    return f"{' '.join(words)} and item{number} with{number} tail{number % 4}"


async def served(bench: Bench) -> set[str]:
    """Return the uris of the documents that a search can find."""
    return {str(match.metadata["uri"]) for match in await bench.visible()}
