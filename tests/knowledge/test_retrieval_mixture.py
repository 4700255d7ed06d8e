"""Searches while documents are published never mix two versions, and never miss a passage."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from lorebind_config.namespace import chunk_id
from lorebind_knowledge.catalog.leases import Lease
from lorebind_knowledge.plumbing.bridge import run
from lorebind_knowledge.records import DocumentMatch, Partition, Record
from lorebind_knowledge.stores.base import SearchHits, VectorStore
from lorebind_knowledge.stores.wrapper import StoreWrapper

from .bench import Bench

SEARCHES = 60
LEAST_PUBLISHED = 12
DOCUMENTS = ("a.md", "b.md", "c.md")
STRATEGIES = ("similarity", "lexical", "hybrid", "mmr")
QUESTION = "keys stay even part1 odd1"


def passages(version: int) -> list[str]:
    """Return one passage that never changes and three of the version; every second one recurs."""
    name = "even" if version % 2 == 0 else f"odd{version % 3}"
    return ["keys stay for ever", *(f"keys {name} part{part} words" for part in range(3))]


def records(bench: Bench, uri: str, texts: list[str], generation: int) -> list[Record]:
    vectors = bench.embedder._inner.embed_documents(texts)
    return [
        Record(
            chunk_id(bench.kb.namespace, uri, text, 0),
            bench.entry.key,
            uri,
            generation,
            text,
            np.asarray(vector),
            {"uri": uri, "kb_id": "docs", "title": "", "start": at, "end": at},
        )
        for at, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]


def publish_all(bench: Bench, lease: Lease, version: int) -> None:
    """Publish like an ingest: stage, publish in one step, delete the old version immediately."""
    index, entry = bench.index, bench.entry
    for uri, generation in index.next_generations(entry, DOCUMENTS).items():
        index.stage(lease, entry, records(bench, uri, passages(version), generation))
        index.publish(lease, entry, {uri: generation})
    index.sweep(lease, entry)


def begin(bench: Bench) -> None:
    """Add three documents by hand."""
    bench.write("a.md", "to make the index")
    bench.change(dedupe=False)
    run(bench.ingest())
    with bench.catalog.lease(bench.kb.namespace) as lease:
        bench.index.remove(lease, bench.entry, ["docs/a.md"])
        publish_all(bench, lease, 1)


def check(hits: Iterable[DocumentMatch]) -> None:
    """Check that all four passages of each document are found, all of one version."""
    texts: dict[str, list[str]] = {uri: [] for uri in DOCUMENTS}
    for match in hits:
        texts[match.metadata["uri"]].append(match.text)
    for uri, passages in texts.items():
        names = set(re.findall(r"even|odd\d", " ".join(passages)))
        assert len(names) == 1, (uri, passages)
        assert len(set(passages)) == len(passages) == 4, (uri, passages)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_while_a_writer_publishes(bench: Bench, strategy: str) -> None:
    """Every result contains each document completely and in one version."""
    begin(bench)
    done = threading.Event()
    failures: list[BaseException] = []
    published = 0

    def write() -> None:
        nonlocal published
        try:
            with bench.catalog.lease(bench.kb.namespace) as lease:
                version = 1
                while not done.is_set():
                    version += 1
                    publish_all(bench, lease, version)
                    published += 1
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        searches = 0
        while searches < SEARCHES or (published < LEAST_PUBLISHED and writer.is_alive()):
            searches += 1
            check(run(bench.ask(QUESTION, strategy=strategy, top_k=50)))
    finally:
        done.set()
        writer.join(60)
    assert not failures
    assert published >= LEAST_PUBLISHED


class Blind(StoreWrapper):
    """A store that returns no vectors, so that the catalog stores them."""

    def __init__(self, inner: VectorStore) -> None:
        super().__init__(inner)
        self.returns_vectors = False

    async def nearest(self, *arguments: Any) -> SearchHits:
        return SearchHits((await super().nearest(*arguments)).numbers)

    async def get(self, space: Partition, numbers: Collection[int]) -> dict[int, None]:
        return dict.fromkeys(await super().get(space, numbers))


@pytest.fixture(params=["gives vectors", "gives none"])
def overtaken(request: pytest.FixtureRequest, make_bench: Callable[[str], Bench]) -> Bench:
    """Return a bench whose catalog can be written while a search reads it."""
    bench = make_bench("sqlite")
    if request.param == "gives none":
        bench.index.store = Blind(bench.index.store)
    begin(bench)
    return bench


def before_each_search(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, steps: Iterator[Callable[[], None]]
) -> None:
    """Run one step after a search has opened its view and before it asks the store."""
    nearest = bench.index.store.nearest

    def late(*arguments: Any) -> Any:
        next(steps, lambda: None)()
        return nearest(*arguments)

    monkeypatch.setattr(bench.index.store, "nearest", late)


@pytest.mark.parametrize("strategy", ["similarity", "hybrid", "mmr"])
@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_versions_that_come_and_go(
    overtaken: Bench, monkeypatch: pytest.MonkeyPatch, times: int, strategy: str
) -> None:
    """A version between two equal ones is never mixed with them, and no passage is missing."""
    bench = overtaken
    with bench.catalog.lease(bench.kb.namespace) as lease:
        steps = [partial(publish_all, bench, lease, 2 + step) for step in range(times)]
        before_each_search(bench, monkeypatch, iter(steps))
        check(run(bench.ask(QUESTION, strategy=strategy, top_k=50)))


@pytest.mark.parametrize("strategy", ["similarity", "hybrid", "mmr"])
@pytest.mark.parametrize("top_k", [1, 50])
def test_much_that_is_staged_meanwhile(
    overtaken: Bench, monkeypatch: pytest.MonkeyPatch, top_k: int, strategy: str
) -> None:
    """Staged passages do not displace visible ones, however many and near they are."""
    bench = overtaken
    expected = run(bench.ask(QUESTION, strategy=strategy, top_k=top_k)).matches
    with bench.catalog.lease(bench.kb.namespace) as lease:

        def stage_many() -> None:
            texts = [f"{QUESTION} {number}" for number in range(300)]
            bench.index.stage(lease, bench.entry, records(bench, "new.md", texts, 1))

        before_each_search(bench, monkeypatch, iter([stage_many]))
        assert run(bench.ask(QUESTION, strategy=strategy, top_k=top_k)).matches == expected
