"""A driver for tests of an `Index`: short verbs, with defaults for knowledge base and document."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.indexes import Manifest
from lorebind_knowledge.cosines import score_of
from lorebind_knowledge.index.index import Index, NoIndexError
from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.catalog.versions import Change
    from lorebind_knowledge.index.view import Hits, View
    from lorebind_knowledge.records import Vector
    from lorebind_knowledge.stores.base import VectorStore

HERE = Namespace("acme", "support", "project", "handbook")
DIMENSION = 4
EAST = (1.0, 0.0, 0.0, 0.0)
NORTH = (0.0, 1.0, 0.0, 0.0)


class Match(NamedTuple):
    """A chunk that a search found."""

    id: str
    score: float
    figure: float
    """Its raw cosine or BM25."""
    text: str
    metadata: dict[str, Any]


def vector(values: Iterable[float]) -> Vector:
    return np.array(list(values), dtype=np.float32)


def record(
    id: str,  # noqa: A002 - the field's own name
    values: Iterable[float] = EAST,
    *,
    uri: str = "a.md",
    generation: int = 1,
    text: str | None = None,
    context: str = "",
    **metadata: Any,
) -> Record:
    """Make a record whose text is its id by default."""
    content = id if text is None else text
    return Record(id, IndexKey(HERE), uri, generation, content, vector(values), metadata, context)


def ids(matches: Iterable[Match]) -> list[str]:
    return [match.id for match in matches]


def ramp(count: int) -> Sequence[tuple[float, ...]]:
    """Return vectors at increasing distances from EAST, no two at the same angle."""
    return [(1.0, step / count, 0.0, 0.0) for step in range(count)]


class Driver:
    """An index with the defaults of these tests: one knowledge base, one document."""

    def __init__(self, store: VectorStore, catalog: Catalog) -> None:
        self.store, self.catalog = store, catalog
        self.index = Index(store, catalog)
        self._held = ExitStack()
        self._leases: dict[Namespace, Lease] = {}

    def lease(self, namespace: Namespace = HERE) -> Lease:
        """Return the lease of a namespace, which is taken at the first call."""
        if namespace not in self._leases:
            self._leases[namespace] = self._held.enter_context(self.catalog.lease(namespace))
        return self._leases[namespace]

    def build(self, namespace: Namespace = HERE, dimension: int = DIMENSION) -> IndexEntry:
        """Create an index that is not searched yet."""
        manifest = Manifest("tests", "tests-1", dimension, "whole")
        return self.catalog.ledger.create_index(self.lease(namespace), manifest)

    def open(self, namespace: Namespace = HERE, dimension: int = DIMENSION) -> IndexEntry:
        """Create and activate an index."""
        entry = self.build(namespace, dimension)
        self.catalog.ledger.activate_index(self.lease(namespace), entry.key)
        return entry

    def entry(self, namespace: Namespace = HERE) -> IndexEntry:
        """Return the active index."""
        entry = self.catalog.ledger.index(namespace, "active")
        if entry is None:
            raise NoIndexError(namespace)
        return entry

    def stage(self, *records: Record, namespace: Namespace = HERE) -> None:
        entry = self.entry(namespace)
        ours = [replace(record, index=entry.key) for record in records]
        self.index.stage(self.lease(namespace), entry, ours)

    def publish(
        self, uri: str = "a.md", generation: int = 1, namespace: Namespace = HERE
    ) -> dict[str, Change]:
        return self.publish_all({uri: generation}, namespace)

    def publish_all(
        self, generations: Mapping[str, int], namespace: Namespace = HERE
    ) -> dict[str, Change]:
        return self.index.publish(self.lease(namespace), self.entry(namespace), generations)

    def add(self, *records: Record, namespace: Namespace = HERE) -> None:
        """Stage records and publish their generations."""
        self.stage(*records, namespace=namespace)
        self.publish_all({record.uri: record.generation for record in records}, namespace)

    def search(
        self,
        values: Iterable[float] = EAST,
        k: int = 100,
        where: Mapping[str, Any] | None = None,
        namespace: Namespace = HERE,
    ) -> list[Match]:
        """Return the chunks nearest to a vector."""

        def ask(view: View) -> list[Match]:
            hits = view.nearest(vector(values), k, where)
            return _matches(view, hits, 1.0)

        return self.index.read(namespace, ask)

    def hits(self, **options: Any) -> list[str]:
        """Return the ids that a search finds, best first."""
        return ids(self.search(**options))

    def words(
        self,
        question: str,
        k: int = 100,
        where: Mapping[str, Any] | None = None,
        namespace: Namespace = HERE,
    ) -> list[Match]:
        """Return the chunks that match the words of a question; the best has the score 1."""

        def ask(view: View) -> list[Match]:
            hits = view.bm25_search(question, k, where)
            return _matches(view, hits, hits.scores.max(initial=0.0) or 1.0)

        return self.index.read(namespace, ask)

    def fetch(self, *names: str, namespace: Namespace = HERE) -> dict[str, StoredChunk]:
        """Return chunks by their ids."""
        return self.index.read(namespace, lambda view: view.named(names))

    def vectors(self, *names: str, namespace: Namespace = HERE) -> dict[str, Vector]:
        """Return the vectors of chunks, by the chunks' ids."""

        def ask(view: View) -> dict[str, Vector]:
            chunks = view.named(names)
            vectors = view.vectors([chunk.number for chunk in chunks.values()])
            return dict(zip(chunks, vectors, strict=True))

        return self.index.read(namespace, ask)

    def count(self, namespace: Namespace = HERE) -> int:
        """Return the number of chunks that can be found."""
        return self.index.read(namespace, lambda view: view.state.live)

    def remove(self, *uris: str, namespace: Namespace = HERE) -> int:
        return self.index.remove(self.lease(namespace), self.entry(namespace), uris)

    def sweep(self, namespace: Namespace = HERE, *, abandon: bool = False) -> None:
        self.index.sweep(self.lease(namespace), self.entry(namespace), abandon=abandon)

    def drop(self, entry: IndexEntry) -> None:
        self.index.drop(self.lease(entry.key.namespace), entry)

    def store_count(self, entry: IndexEntry) -> int | None:
        """Return the number of vectors in the store, or None if it cannot count."""
        return finish(self.store.count(entry.space))

    def agree(self, namespace: Namespace = HERE) -> None:
        """Sweep, then check that the store has exactly the live vectors."""
        self.sweep(namespace)
        entry = self.entry(namespace)
        state = self.index.read(namespace, lambda view: view.state)
        assert state.entered == state.live
        assert self.store_count(entry) in (None, state.live)
        assert self.index.compare(entry, deep=True)[:2] == (state.live, [])

    def let_go(self) -> None:
        """Release all leases, as the end of an ingest does."""
        self._held.close()
        self._leases.clear()

    def close(self) -> None:
        self.let_go()
        self.index.close()


def _matches(view: View, hits: Hits, best: float) -> list[Match]:
    numbers = hits.numbers.tolist()
    whole = view.chunks(numbers)
    return [
        Match(name, score_of(figure / best), figure, whole[number].text, whole[number].metadata)
        for number, name, figure in zip(numbers, hits.ids, hits.scores.tolist(), strict=True)
    ]


class IndexTests:
    """The fixtures of all tests of an index: an index made of `store` and a catalog."""

    @pytest.fixture
    def store(self) -> VectorStore:
        raise NotImplementedError("define a fixture named `store` that returns an empty store")

    @pytest.fixture
    def make_catalog(self, tmp_path: Path) -> Iterator[Callable[[], Catalog]]:
        """Yield a function that makes catalogs of the same data, by default in a file."""
        catalogs: list[Catalog] = []

        def make() -> Catalog:
            catalogs.append(Catalog(tmp_path / "of the index" / "catalog.db"))
            return catalogs[-1]

        yield make
        for catalog in catalogs:
            catalog.close()

    @pytest.fixture
    def to(self, store: VectorStore, make_catalog: Callable[[], Catalog]) -> Iterator[Driver]:
        driver = Driver(store, make_catalog())
        yield driver
        driver.let_go()
