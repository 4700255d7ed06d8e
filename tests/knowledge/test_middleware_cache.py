"""The query cache: the results that it returns again, and those that it never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.declarations.retrieval import RetrievalDeclaration, WeakLevels
from lorebind_config.errors import StoreError
from lorebind_config.namespace import Namespace, tenant
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.embedders.base import Fingerprint
from lorebind_knowledge.events import Events
from lorebind_knowledge.index.index import Version
from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.middleware import Retrieval
from lorebind_knowledge.middleware.cache import QueryCache, key_of
from lorebind_knowledge.records import DocumentMatch, QueryResult
from lorebind_knowledge.stores import MemoryStore
from lorebind_knowledge.testing.index_driver import HERE, Driver, record
from tests.density import examples

from .bench import Diary, ingest

names = st.sampled_from(["a", "b", "ab", "", "a/b", "workflow/a", "project"])
namespaces = st.builds(Namespace, tenant=names, project=names, scope=names, kb=names)
retrievals = st.builds(
    RetrievalDeclaration,
    top_k=st.integers(1, 3),
    strategy=st.sampled_from(["hybrid", "similarity"]),
    min_score=st.none() | st.just(0.0) | st.just(0.5),
    filters=st.sampled_from([{}, {"a": 1}, {"a": "1"}, {"a": True}]),
) | st.sampled_from([RetrievalDeclaration(), RetrievalDeclaration(strategy="hybrid")])


FINGERPRINT = Fingerprint("p", "m")
FIRST = Version(1, 1, FINGERPRINT.key)


def _kb(
    namespace: Namespace,
    version: Version | None = FIRST,
    index: Any = None,
    fingerprint: Any = FINGERPRINT,
) -> Any:
    """Return the part of a knowledge base that the cache reads."""
    index = index or SimpleNamespace(version=lambda owner: version)
    embedder: Any = SimpleNamespace(fingerprint=fingerprint)
    return IndexedKnowledgeBase(
        id=namespace.kb,
        namespace=namespace,
        retrieval=RetrievalDeclaration(),
        index=index,
        embedder=embedder,
        events=Events(),
    )


def _request(*owners: Namespace, question: str = "q", **more: Any) -> Retrieval:
    kbs = tuple(_kb(owner, **more) for owner in owners)
    return Retrieval(kbs, question, RetrievalDeclaration())


class Searches:
    """Counts real searches, and returns results that name their owner."""

    def __init__(self) -> None:
        self.count = 0
        self.fail = False

    async def __call__(self, request: Retrieval) -> QueryResult:
        self.count += 1
        if self.fail:
            raise StoreError("down")
        match = DocumentMatch("id", 1.0, 1.0, {"dense": 1.0}, _decides(request), {"tags": ["x"]})
        return QueryResult([match], "hybrid", [kb.id for kb in request.kbs], [], 0.0)


OWNER = Namespace("t", "p", "project", "docs")

Question: TypeAlias = tuple[list[Namespace], str, RetrievalDeclaration]

one_question = st.tuples(
    st.lists(namespaces, min_size=1, max_size=2, unique=True),
    st.sampled_from(["q", "Q", "q ", ""]),
    retrievals,
)


@st.composite
def near(draw: st.DrawFn) -> tuple[Question, Question]:
    """Draw two questions that differ in at most one property."""
    owners, question, chosen = base = draw(one_question)
    change = draw(st.sampled_from(["tenant", "project", "scope", "kb", "question", "how"]))
    if change in Namespace.__slots__:
        owners = [replace(owners[0], **{change: draw(names)}), *owners[1:]]
    elif change == "question":
        question = draw(st.sampled_from(["q", "Q"]))
    else:
        chosen = draw(retrievals)
    return base, (owners, question, chosen)


def _retrieval(draft: Question) -> Retrieval:
    owners, question, chosen = draft
    return Retrieval(tuple(map(_kb, owners)), question, chosen)


def _decides(request: Retrieval) -> str:
    """Return everything that a result depends on, computed without the cache."""
    owners = [(kb.namespace, kb.namespace.tenant) for kb in request.kbs]
    settings = sorted(request.settings.model_dump().items())
    return repr((owners, request.question, settings))


@given(st.lists(near(), min_size=1, max_size=4))
@settings(max_examples=examples(150), deadline=None)
def test_no_answer_crosses_from_one_to_another(pairs: list[tuple[Question, Question]]) -> None:
    """A result belongs to exactly the tenant, scope, question and settings of the search."""

    async def ask_all() -> None:
        retrieve = QueryCache(4, 60).retrieval(Searches())
        questions = [question for pair in pairs for question in pair]
        for question in [*questions, *questions[::-1]]:
            request = _retrieval(question)
            result = await retrieve(request)
            assert result.matches[0].text == _decides(request)

    asyncio.run(ask_all())


@given(near())
@settings(max_examples=examples(300), deadline=None)
def test_a_key_is_all_that_decides(pair: tuple[Question, Question]) -> None:
    """Two questions have the same key only if all their properties are equal."""
    first, other = map(_retrieval, pair)
    assert (key_of(first) == key_of(other)) == (_decides(first) == _decides(other))


def test_the_level_of_a_reranker_decides_too() -> None:
    """`weak_below: null` of a reranker is not the same as none: that of the knowledge base."""
    (kb,) = _request(HERE).kbs
    kb = replace(kb, weak_levels=WeakLevels(0.5, 0.5))
    keys = []
    for level in ({}, {"weak_below": None}, {"weak_below": 0.2}):
        rerank = {"class": "rerankers:Mine", **level}
        settings = RetrievalDeclaration.model_validate({"strategy": "rerank", "rerank": rerank})
        keys.append(key_of(Retrieval((kb,), "q", settings)))
    assert len(set(keys)) == 3


async def test_the_same_question_is_answered_once() -> None:
    """A repeated question is searched once, and changing a result does not affect other callers."""
    searches = Searches()
    cache = QueryCache(10, 60)
    retrieve = cache.retrieval(searches)
    first = await retrieve(_request(OWNER))
    first.matches[0].metadata["tags"].append("changed")
    first.matches.clear()
    second = await retrieve(_request(OWNER))
    assert second.matches[0].metadata["tags"] == ["x"]
    second.matches[0].metadata["tags"].clear()
    assert (await retrieve(_request(OWNER))).matches[0].metadata["tags"] == ["x"]
    assert searches.count == 1


@pytest.mark.parametrize("version", [FIRST._replace(index_uid=2), FIRST._replace(number=2)])
async def test_another_version_makes_answers_old(version: Version) -> None:
    """Another index, or another state of it written by any process, invalidates results."""
    searches = Searches()
    retrieve = QueryCache(10, 60).retrieval(searches)
    await retrieve(_request(OWNER))
    await retrieve(_request(OWNER, version=version))
    assert searches.count == 2


@pytest.mark.parametrize("version", [None, Version(1, 1, "another")])
async def test_without_an_index_nothing_is_kept(version: Version | None) -> None:
    """Without an index of the current embedder, nothing is cached and the search itself fails."""
    searches = Searches()
    cache = QueryCache(10, 60)
    for _ in range(2):
        await cache.retrieval(searches)(_request(OWNER, version=version))
    assert (searches.count, len(cache)) == (2, 0)


async def test_an_answer_that_a_publication_overtook_is_not_kept() -> None:
    """A result is not cached if something was published during its search."""
    versions = iter([FIRST, Version(1, 2, FINGERPRINT.key)])
    request = _request(OWNER)
    request.kbs[0].index.version = lambda owner: next(versions)
    cache = QueryCache(10, 60)
    await cache.retrieval(Searches())(request)
    assert len(cache) == 0


async def test_whatever_is_written_makes_answers_old() -> None:
    """Publishing, removing and dropping invalidate results of their namespace only."""
    searches = Searches()
    retrieve = QueryCache(10, 60).retrieval(searches)
    to = Driver(MemoryStore(), Catalog())
    to.open(OWNER)
    to.open(HERE)
    fingerprint = SimpleNamespace(key=to.entry().manifest.embedder_key)
    searched_in = {"index": to.index, "fingerprint": fingerprint}
    mine, others = _request(HERE, **searched_in), _request(OWNER, **searched_in)

    async def searched(request: Retrieval) -> bool:
        before = searches.count
        await retrieve(request)
        return searches.count > before

    assert await searched(mine)
    assert await searched(others)
    to.stage(record("a"))
    assert not await searched(mine)
    for change in (to.publish, lambda: to.remove("a.md"), lambda: to.drop(to.entry()), to.open):
        change()
        assert await searched(mine)
        assert not await searched(others)
    to.sweep()
    assert not await searched(mine)
    to.close()


async def test_errors_are_not_kept() -> None:
    """A search that failed is tried again by the next caller."""
    searches = Searches()
    retrieve = QueryCache(10, 60).retrieval(searches)
    searches.fail = True
    for _ in range(2):
        with pytest.raises(StoreError):
            await retrieve(_request(OWNER))
    searches.fail = False
    await retrieve(_request(OWNER))
    assert searches.count == 3


async def test_answers_grow_old_and_make_room() -> None:
    """Expired results are searched again; the least recently used one is evicted first."""
    now = [0.0]
    searches = Searches()
    cache = QueryCache(2, 10, clock=lambda: now[0])
    retrieve = cache.retrieval(searches)
    await retrieve(_request(OWNER, question="1"))
    now[0] = 9.9
    await retrieve(_request(OWNER, question="1"))
    assert searches.count == 1
    now[0] = 10.0
    await retrieve(_request(OWNER, question="1"))
    assert searches.count == 2
    await retrieve(_request(OWNER, question="2"))
    await retrieve(_request(OWNER, question="1"))
    await retrieve(_request(OWNER, question="3"))
    assert (searches.count, len(cache)) == (4, 2)
    await retrieve(_request(OWNER, question="1"))
    assert searches.count == 4
    await retrieve(_request(OWNER, question="2"))
    assert searches.count == 5


@pytest.fixture(params=["memory", "sqlite"])
async def service(
    request: pytest.FixtureRequest, tmp_path: Path, diary: Diary
) -> AsyncIterator[KnowledgeService]:
    """Return a project with a cache and one knowledge base over a folder."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("alpha beta gamma")
    data = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": request.param}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "docs/*.md"}]}
        ],
        "wrappers": [{"type": "cache"}],
    }
    loaded = build_project(data, root=tmp_path)
    service = KnowledgeService(loaded, Events([diary]))  # type: ignore[list-item]
    yield service
    await service.close()


async def test_a_project_caches_what_it_found(
    service: KnowledgeService, diary: Diary, tmp_path: Path
) -> None:
    """Subscribers see every search, tenants see their own results, an ingest shows immediately."""
    docs = service.open("docs")
    await ingest(docs.corpus())
    for _ in range(2):
        assert [m.text for m in await docs.query("alpha")] == ["alpha beta gamma"]
    done = diary.data("retrieval_completed")
    assert [event.get("cached", False) for event in done] == [False, True]
    assert done[1]["matches"] == 1
    with tenant("acme"):
        (tmp_path / "docs" / "a.md").write_text("alpha of acme")
        await ingest(docs.corpus())
        assert [m.text for m in await docs.query("alpha")] == ["alpha of acme"]
    assert [m.text for m in await docs.query("alpha")] == ["alpha beta gamma"]
    await ingest(docs.corpus())
    assert [m.text for m in await docs.query("alpha")] == ["alpha of acme"]
