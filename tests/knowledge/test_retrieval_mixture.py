"""Searches while documents are published: never two versions of one, never less than is there."""

from __future__ import annotations

import asyncio
import re
import threading
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lorebind_knowledge.bridge import run
from lorebind_knowledge.declarations import RetrievalDeclaration
from lorebind_knowledge.identity import chunk_id
from lorebind_knowledge.records import Record, RecordFilter
from lorebind_knowledge.retrieval.base import Search
from lorebind_knowledge.retrieval.search import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from lorebind_knowledge.records import DocumentMatch

    from .bench import Bench

SEARCHES = 60
LEAST_PUBLISHED = 12
DOCUMENTS = ("a.md", "b.md", "c.md")


def passages(version: int) -> list[str]:
    """One passage that always stays, and three that each version has of its own; every second
    version is as the one before the last."""
    name = "even" if version % 2 == 0 else f"odd{version % 3}"
    return ["keys stay for ever", *(f"keys {name} part{part} words" for part in range(3))]


def publish(bench: Bench, uri: str, generation: int) -> None:
    """As an ingest does it: staged, published in one step, what was before deleted."""
    index = bench.index
    texts = passages(generation)
    vectors = bench.embedder._inner.embed_documents(texts)
    bench.store.upsert(
        [
            Record(
                chunk_id(index.namespace, uri, text, 0),
                index,
                uri,
                generation,
                text,
                np.asarray(vector),
                {"uri": uri, "kb_id": "docs", "title": "", "start": at, "end": at},
            )
            for at, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
    )
    bench.store.publish(index, uri, generation)
    bench.store.delete_by_filter(RecordFilter(index, uri=uri, except_generation=generation))


def versions(found: list[DocumentMatch]) -> dict[str, set[str]]:
    """By document, the versions that its passages are of."""
    seen: dict[str, set[str]] = {}
    for match in found:
        names = re.findall(r"even|odd\d", match.text)
        seen.setdefault(match.metadata["uri"], set()).update(names)
    return seen


def check(found: list[DocumentMatch]) -> None:
    assert all(len(names) <= 1 for names in versions(found).values()), versions(found)
    staying = [m.metadata["uri"] for m in found if m.text == "keys stay for ever"]
    assert sorted(staying) == list(DOCUMENTS)


@pytest.mark.parametrize("strategy", ["similarity", "lexical", "hybrid", "mmr"])
def test_while_a_writer_publishes(make_bench: Callable[[str], Bench], strategy: str) -> None:
    """Every answer holds each document in one version, and the passage that never changes."""
    bench = make_bench("sqlite")
    bench.write("a.md", "to make the index")
    run(bench.ingest())
    bench.store.delete_by_filter(RecordFilter(bench.index, uri="docs/a.md"))
    for uri in DOCUMENTS:
        publish(bench, uri, 1)
    done = threading.Event()
    failures: list[BaseException] = []
    published = 0

    def write() -> None:
        nonlocal published
        try:
            for generation in range(2, 2_000):
                for uri in DOCUMENTS:
                    publish(bench, uri, generation)
                    published += 1
                if done.is_set():
                    return
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        searches = 0
        while searches < SEARCHES or (published < LEAST_PUBLISHED and writer.is_alive()):
            searches += 1
            settings = RetrievalDeclaration.model_validate({"strategy": strategy, "top_k": 50})
            search = Search(bench.kb, bench.index, "keys stay even part1 odd1", settings)
            found = run(_ranked(search, strategy))
            check(found)
    finally:
        done.set()
        writer.join(60)
    assert not failures
    assert published >= LEAST_PUBLISHED


async def _ranked(search: Search, strategy: str) -> list[DocumentMatch]:
    return await STRATEGIES[strategy](search, 50)


class Between(Search):
    """A search of words, then of vectors, before each of which something happens."""

    steps: Iterator[Callable[[], None]] = iter(())
    words_are_found: asyncio.Event

    async def dense(self, top_k: int, ids: Collection[str] | None = None) -> list[DocumentMatch]:
        await self.words_are_found.wait()
        next(self.steps, lambda: None)()
        return await super().dense(top_k, ids)

    async def lexical(self, top_k: int, ids: Collection[str] | None = None) -> list[DocumentMatch]:
        found = await super().lexical(top_k, ids)
        self.words_are_found.set()
        return found


@pytest.mark.parametrize("times", [0, 1, 2, 3, 4])
async def test_versions_that_come_and_go(bench: Bench, times: int) -> None:
    """Of a version between two that are alike nothing is mixed with theirs."""
    bench.write("a.md", "to make the index")
    await bench.ingest()
    bench.store.delete_by_filter(RecordFilter(bench.index, uri="docs/a.md"))
    for uri in DOCUMENTS:
        publish(bench, uri, 2)

    def publish_all(generation: int) -> None:
        for uri in DOCUMENTS:
            publish(bench, uri, generation)

    search = Between(bench.kb, bench.index, "keys stay even part1", bench.kb.retrieval)
    search.words_are_found = asyncio.Event()
    search.steps = iter([partial(publish_all, 3 + step) for step in range(times)])
    found = await STRATEGIES["hybrid"](search, 50)
    check(found)
