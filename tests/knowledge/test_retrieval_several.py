"""Searching several knowledge bases in one ranking."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorebind import Project
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import (
    EmbedderError,
    NotFoundError,
    NotIngestedError,
    StoreError,
    UsageError,
)
from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog.indexes import IndexEntry
from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.ingest.engine import ingest as ingest_corpus
from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.plumbing.bridge import run
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.search import search
from lorebind_knowledge.sources.folder.files import FileSource

from .bench import Bench, CountingEmbedder, text_of

QUESTION = "apple boat cedar"
STRATEGIES = ("similarity", "lexical", "hybrid", "mmr")


def other(bench: Bench, name: str) -> IndexedKnowledgeBase:
    """Return another knowledge base in the same store."""
    namespace = Namespace("default", "test", "project", name)
    return replace(bench.kb, id=name, namespace=namespace)


def write(bench: Bench, folder: str, name: str, text: str) -> None:
    (bench.root / folder).mkdir(exist_ok=True)
    (bench.root / folder / name).write_text(text)


async def ingest(
    bench: Bench, kb: IndexedKnowledgeBase, folder: str = "", strategy: str = "upsert"
) -> None:
    """Ingest the given folder, or by default the one named like the knowledge base."""
    source = FileSource("markdown_glob", [f"{folder or kb.id}/**/*.md"], bench.root)
    await ingest_corpus(replace(bench.corpus, kb=kb, sources=[source]), strategy=strategy)


async def three(bench: Bench) -> list[IndexedKnowledgeBase]:
    """Return thirty passages, ten in each knowledge base."""
    kbs = [other(bench, name) for name in ("one", "two", "three")]
    for number in range(30):
        write(bench, kbs[number % 3].id, f"{number:02}.md", text_of(number))
    for kb in kbs:
        await ingest(bench, kb)
    bench.embedder.forget()
    return kbs


async def ask(
    kbs: list[IndexedKnowledgeBase], question: str = QUESTION, **settings: Any
) -> QueryResult:
    return await search(kbs, question, RetrievalDeclaration(**settings))


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_one_ranking(bench: Bench, strategy: str) -> None:
    """All passages are ranked together in any order; a shorter result is a prefix."""
    kbs = await three(bench)
    every = (await ask(kbs, strategy=strategy, top_k=50)).matches
    assert {match.metadata["kb_id"] for match in every} == {"one", "two", "three"}
    if strategy != "mmr":
        assert every == sorted(every, key=lambda match: (-match.score, match.id))
    for count in (1, 4, 9):
        fewer = (await ask(kbs[::-1], strategy=strategy, top_k=count)).matches
        assert [(m.id, m.score) for m in fewer] == [(m.id, m.score) for m in every[:count]]
    assert all(0 <= match.score <= 1 for match in every)


async def test_cosines_are_those_of_one(bench: Bench) -> None:
    """By similarity, the ranking equals that of one knowledge base that holds everything."""
    kbs = await three(bench)
    whole = other(bench, "whole")
    for number in range(30):
        write(bench, "whole", f"{number:02}.md", text_of(number))
    await ingest(bench, whole)
    apart = await ask(kbs, strategy="similarity", top_k=30)
    together = await ask([whole], strategy="similarity", top_k=30)
    assert [match.score for match in apart] == [match.score for match in together]
    assert {m.text: m.score for m in apart} == {m.text: m.score for m in together}


async def test_one_of_one_is_the_knowledge_base_itself(bench: Bench) -> None:
    """A single knowledge base gives the same result as when it is searched directly."""
    kbs = await three(bench)
    bench.kb = kbs[0]
    for strategy in STRATEGIES:
        alone = await bench.ask(QUESTION, strategy=strategy, top_k=5)
        assert (await ask(kbs[:1], strategy=strategy, top_k=5)).matches == alone.matches


async def test_the_question_is_embedded_once(bench: Bench) -> None:
    """The question is embedded once for any number of knowledge bases and searches."""
    kbs = await three(bench)
    for strategy in STRATEGIES:
        bench.embedder.forget()
        await ask(kbs, strategy=strategy)
        assert bench.embedder.questions == [QUESTION]


async def test_what_was_not_ingested_is_skipped(bench: Bench) -> None:
    """Knowledge bases without an index are listed as skipped; if all lack one, it is an error."""
    kbs = await three(bench)
    empty = other(bench, "later")
    result = await ask([kbs[0], empty, kbs[1]])
    assert (result.searched, result.skipped) == (["one", "two"], ["later"])
    assert (await ask(kbs)).skipped == []
    with pytest.raises(NotIngestedError, match="knowledge ingest later"):
        await ask([empty])
    with pytest.raises(UsageError, match="no knowledge base"):
        await ask([])
    with pytest.raises(UsageError, match="question is empty"):
        await ask(kbs, " ")


async def test_different_embedders(bench: Bench) -> None:
    """Scores of two embedders cannot be compared, so the search is refused before any call."""
    kbs = await three(bench)
    strange = replace(kbs[1], embedder=CountingEmbedder(revision="2"))
    with pytest.raises(UsageError, match=r"different embedders .*one by one"):
        await ask([kbs[0], strange])
    assert bench.embedder.questions == []


async def test_an_outage_of_one_is_an_error(bench: Bench) -> None:
    """A store without its index or a failing embedder raises instead of shortening the result."""
    kbs = await three(bench)
    bench.index.store.drop(_entry(bench, kbs[1]).space)
    for strategy in STRATEGIES:
        with pytest.raises(StoreError):
            await ask(kbs, strategy=strategy)

    class Broken(CountingEmbedder):
        def embed_query(self, text: str) -> np.ndarray:
            raise ConnectionError("no route")

    with pytest.raises(EmbedderError, match="no route"):
        await ask([replace(kb, embedder=Broken()) for kb in (kbs[0], kbs[2])])


def _entry(bench: Bench, kb: IndexedKnowledgeBase) -> IndexEntry:
    entry = bench.catalog.ledger.index(kb.namespace, "active")
    assert entry is not None
    return entry


async def test_every_one_is_announced(bench: Bench) -> None:
    """Each knowledge base emits its search with its matches, a skip, or the outage of all."""
    kbs = await three(bench)
    later = other(bench, "later")
    bench.diary.entries.clear()
    bench.diary.content = True

    def heard(hook: str) -> dict[str, Any]:
        return {event.kb_id: event.data for name, event in bench.diary.entries if name == hook}

    result = await ask([*kbs, later], top_k=4)
    ids = ["one", "two", "three", "later"]
    begun = {"strategy": "hybrid", "top_k": 4, "question": QUESTION}
    assert heard("retrieval_started") == dict.fromkeys(ids, begun)
    done = heard("retrieval_completed")
    counts = Counter(match.metadata["kb_id"] for match in result)
    assert {name: data["matches"] for name, data in done.items()} == {
        name: counts[name] for name in ids[:3]
    }
    assert {data["seconds"] for data in done.values()} == {result.seconds}
    (skipped,) = heard("retrieval_failed").items()
    assert skipped[0] == "later"
    assert "knowledge ingest later" in skipped[1]["reason"]
    assert skipped[1]["kind"] == "NotIngestedError"
    assert bench.diary.names()[:4] == ["retrieval_started"] * 4

    bench.diary.entries.clear()
    bench.index.store.drop(_entry(bench, kbs[1]).space)
    with pytest.raises(StoreError) as caught:
        await ask(kbs)
    failure = {"strategy": "hybrid", "reason": str(caught.value), "kind": "LostVectorsError"}
    assert list(heard("retrieval_failed").items()) == [(name, failure) for name in ids[:3]]
    assert len(bench.diary.entries) == 6


async def test_a_reindex_that_overtakes(bench: Bench) -> None:
    """If one of the indexes is replaced during the search, its successor is read."""
    kbs = await three(bench)
    old = _entry(bench, kbs[1]).key

    class Overtaken(CountingEmbedder):
        async def embed_query(self, text: str) -> Any:  # type: ignore[override]  # either colour will do
            if _entry(bench, kbs[1]).key == old:
                write(bench, "two", "01.md", "apple boat cedar omega")
                await ingest(bench, kbs[1], strategy="replace")
            return super().embed_query(text)

    embedder = Overtaken()
    result = await ask([replace(kb, embedder=embedder) for kb in kbs], "omega", top_k=1)
    assert [match.text for match in result] == ["apple boat cedar omega"]


async def test_databases_of_their_own(bench: Bench, make_bench: Callable[[str], Bench]) -> None:
    """Storing knowledge bases in separate databases changes neither the ranking nor a score."""
    together = await three(bench)
    apart = [*together[:2], replace(together[2], index=make_bench("memory").index)]
    await ingest(bench, apart[2])
    for strategy in STRATEGIES:
        expected = await ask(together, strategy=strategy, top_k=20)
        assert (await ask(apart, strategy=strategy, top_k=20)).matches == expected.matches


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_databases_in_another_order(make_bench: Callable[[str], Bench], kind: str) -> None:
    """Searches that name the same databases in different orders do not deadlock."""
    meeting = threading.Barrier(2)
    kbs = []
    for name in ("one", "two"):
        bench = make_bench(kind)
        kbs.append(other(bench, name))
        write(bench, name, "a.md", f"apple boat cedar {name}")
        run(ingest(bench, kbs[-1]))
        _meet_within_a_read(bench, meeting)
    answers: list[int] = []

    def search(some: list[IndexedKnowledgeBase]) -> None:
        answers.append(len(asyncio.run(ask(some))))

    threads = [
        threading.Thread(target=search, args=[some], daemon=True) for some in (kbs, kbs[::-1])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == [2, 2]


def _meet_within_a_read(bench: Bench, meeting: threading.Barrier) -> None:
    """Let the first two readers of a catalog wait briefly for each other."""
    reading = bench.catalog.reading

    @contextmanager
    def late() -> Iterator[Sql]:
        with reading() as connection:
            with suppress(threading.BrokenBarrierError):
                meeting.wait(0.5)
            yield connection

    bench.catalog.reading = late  # type: ignore[method-assign]


async def test_the_same_passage_in_two(bench: Bench) -> None:
    """The passage is found once and names its other location, unless no knowledge base dedupes."""
    kbs = [other(bench, "one"), other(bench, "two")]
    for kb in kbs:
        write(bench, kb.id, "keys.md", "Rotate the keys in the console every ninety days.")
        write(bench, kb.id, "own.md", f"What {kb.id} says of its own about keys, and no other.")
        await ingest(bench, kb)
    for strategy in STRATEGIES:
        result = await ask(kbs, "rotate the keys", strategy=strategy, top_k=4)
        assert len(result) == len({match.text for match in result}) == 3
        (also,) = (m.metadata["also_in"] for m in result if "also_in" in m.metadata)
        assert also in (["one/keys.md"], ["two/keys.md"])
    off = [replace(kb, dedupe=False) for kb in kbs]
    assert len(await ask(off, "rotate the keys", strategy="similarity", top_k=4)) == 4
    assert len(await ask([off[0], kbs[1]], "rotate the keys", strategy="similarity")) == 3


async def test_the_same_file_in_two(bench: Bench) -> None:
    """Each knowledge base counts a file's versions separately; none hides those of another."""
    first, second = (
        bench.kb,
        replace(bench.kb, id="more", namespace=Namespace("default", "test", "project", "more")),
    )
    bench.write("a.md", "apple of the first", "boat " * 9 + "of the first")
    await ingest(bench, first)
    for word in ("x", "y", "second"):
        bench.write("a.md", f"apple of the {word}", "boat " * 9 + f"of the {word}")
        await ingest(bench, second, "docs")
    result = await ask([first, second], "apple boat", strategy="hybrid", top_k=10)
    assert {match.metadata["kb_id"] for match in result} == {"docs", "more"}
    assert len(result) == 4


# Through the public interface.


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project with two knowledge bases, and a workflow's own of the same name."""

    def base(kb_id: str, folder: str, **more: Any) -> dict[str, Any]:
        return {
            "id": kb_id,
            "sources": [{"type": "markdown_glob", "path": f"{folder}/*.md"}],
            **more,
        }

    for folder, text in (("a", "Keys rotate."), ("b", "Keys open."), ("c", "Keys are secret.")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "keys.md").write_text(text)
    return Project.build(
        {
            "name": "shop",
            "embedders": [{"id": "words", "provider": "hashing"}],
            "vector_dbs": [{"id": "db", "type": "memory"}],
            "knowledge_bases": [base("one", "a", retrieval={"top_k": 1}), base("two", "b")],
            "workflows": [
                {
                    "id": "flow",
                    "knowledge_bases": [base("one", "c"), base("inner", "a")],
                    "tasks": [{"id": "say", "prompt": "Say."}],
                }
            ],
        },
        root=tmp_path,
    )


async def test_query_many(project: Project) -> None:
    """The settings of the first apply unless overridden; without names, each has its own."""
    async with project:
        with pytest.raises(NotIngestedError):
            await project.aquery_many(["one", "two"], "keys")
        await project.aingest("one")
        skipping = await project.aquery_many(["one", "two"], "keys")
        assert (skipping.searched, skipping.skipped) == (["one"], ["two"])
        await project.aingest("two")
        assert len(await project.aquery_many(["one", "two"], "keys")) == 1
        assert len(await project.aquery_many(["two", "one"], "keys")) == 2
        both = await project.aquery_many(["one", "two"], "keys", top_k=5, strategy="lexical")
        assert (len(both), both.strategy) == (2, "lexical")
        with pytest.raises(NotFoundError):
            await project.aquery_many(["one", "none"], "keys")
        every, bindings, _ = await project.at().aexplain_query("keys")
        assert sorted(match.metadata["kb_id"] for match in every) == ["one", "two"]
        assert every.searched == ["one", "two"]
        assert not every.by_ranks
        assert [match.score for match in every] == sorted(
            (match.score for match in every), reverse=True
        )
        assert [binding.settings.top_k for binding in bindings] == [1, 5]
        assert len(await project.aquery_many([], "keys", top_k=1)) == 1


async def test_query_many_of_a_workflow(project: Project) -> None:
    """A workflow's own knowledge base takes precedence over the project's of that name."""
    async with project:
        for kb_id, workflow in (("one", None), ("two", None), ("one", "flow"), ("inner", "flow")):
            await project.aingest(kb_id, workflow=workflow)
        hits = await project.aquery_many(["one", "two"], "keys", workflow="flow", top_k=9)
        assert {match.text for match in hits} == {"Keys are secret.", "Keys open."}
        hits = await project.aquery_many(["inner", "two"], "keys", workflow="flow", top_k=9)
        assert {match.text for match in hits} == {"Keys rotate.", "Keys open."}
        with pytest.raises(NotFoundError):
            await project.aquery_many(["two", "inner"], "keys")


def test_query_many_blocking(project: Project) -> None:
    """The sync version returns the same."""
    with project:
        project.ingest("one")
        assert [match.text for match in project.query_many(["one"], "keys")] == ["Keys rotate."]
