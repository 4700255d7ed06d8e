"""Wrappers around a project's embedders, stores and searches, and their order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import ConfigurationError, PluginError, StoreError, UsageError
from lorebind_config.project_code import import_of_project
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.middleware import Retrieval
from lorebind_knowledge.middleware.chain import Middleware
from lorebind_knowledge.middleware.isolation import Isolation
from lorebind_knowledge.middleware.resilience import StoreRetries
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import Partition, QueryResult
from lorebind_knowledge.retrieval.search import search
from lorebind_knowledge.stores import MemoryStore, VectorStore
from lorebind_knowledge.stores.base import ApproximateStore, SearchHits
from lorebind_knowledge.stores.wrapper import StoreCall, StoreWrapper
from lorebind_knowledge.testing.store_driver import INDEX, Driver, space, vectors

HOOKS = """\
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.stores.wrapper import StoreWrapper
from lorebind_knowledge.middleware import Wrapper
from .notes import SEEN


class Noting(Wrapper):
    def __init__(self, name="noting"):
        self.name = name

    def embedder(self, inner):
        name = self.name
        class Noted(EmbedderWrapper):
            async def wrap_call(self, method, texts, call_next):
                SEEN.append((name, method))
                return await call_next()
        return Noted(inner)

    def store(self, inner):
        name = self.name
        class Noted(StoreWrapper):
            async def wrap_call(self, asked, call_next):
                SEEN.append((name, asked.name))
                return await call_next()
        return Noted(inner)

    def retrieval(self, inner):
        async def noted(asked):
            SEEN.append((self.name, "retrieval"))
            return await inner(asked)
        return noted


class OnlyRetrieval:
    retrieval = Noting("only").retrieval


def lossy():
    class Lossy:
        def store(self, inner):
            return type("Plain", (), {
                name: getattr(inner, name)
                for name in ("is_exact", "filters", "returns_vectors", "counts_fast", "add",
                             "nearest", "get", "delete", "count", "drop", "close")
            })()
    return Lossy()


def nothing():
    return object()


class Leaves:
    def retrieval(self, inner):
        async def leaves(asked):
            raise GeneratorExit
        return leaves


def fails(token=None):
    raise RuntimeError(f"not with {token}")
"""


def _data(*wrappers: Any, **more: Any) -> dict[str, Any]:
    documents = [
        {"id": "keys", "text": "Keys are rotated each month."},
        {"id": "bills", "text": "Bills are sent by mail."},
    ]
    return {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "memory", "type": "memory"}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "inline", "documents": documents}]}
        ],
        "wrappers": list(wrappers),
        **more,
    }


def _service(root: Path, *wrappers: Any, **more: Any) -> KnowledgeService:
    (root / "hooks.py").write_text(HOOKS, encoding="utf-8")
    (root / "notes.py").write_text("SEEN = []\n", encoding="utf-8")
    return KnowledgeService(build_project(_data(*wrappers, **more), root=root))


async def test_a_projects_own_wrappers_stand_around_everything(tmp_path: Path) -> None:
    """Custom wrappers apply to embedders, stores and searches; the first declared is outermost."""
    noting = {"type": "python", "class": "hooks:Noting", "config": {"name": "one"}}
    service = _service(tmp_path, noting, "hooks:Noting", "hooks:OnlyRetrieval")
    docs = service.open("docs")
    await ingest(docs.corpus())
    seen = import_of_project("notes:SEEN", tmp_path)
    assert ("one", "embed_documents") in seen
    assert ("noting", "add") in seen
    seen.clear()
    answer = await docs.query("keys rotated")
    assert answer.matches[0].text == "Keys are rotated each month."
    assert answer.strategy == "hybrid"
    assert seen[:3] == [("one", "retrieval"), ("noting", "retrieval"), ("only", "retrieval")]
    for name in ("embed_query", "nearest"):
        at = [who for who, what in seen if what == name]
        assert at == ["one", "noting"] * (len(at) // 2) != []
    seen.clear()
    result = await service.query_several([docs], "keys", [RetrievalDeclaration()])
    assert len(result) == 2
    assert seen[0] == ("one", "retrieval")
    await service.close()


async def test_a_wrapper_that_raises_a_signal(tmp_path: Path) -> None:
    """A wrapper can raise only errors, which callers handle."""
    service = _service(tmp_path, "hooks:Leaves")
    docs = service.open("docs")
    await ingest(docs.corpus())
    with pytest.raises(RuntimeError, match="it raised GeneratorExit"):
        await docs.query("keys")
    await service.close()


def test_wrappers_that_cannot_be_made_are_named(tmp_path: Path) -> None:
    """Errors name factories that fail, make nothing, or remove abilities, without secrets."""
    with pytest.raises(PluginError, match=r"hooks:nothing made a object, which has none of the"):
        _service(tmp_path, "hooks:nothing")
    token = {"type": "python", "class": "hooks:fails", "config": {"token": "{{ .env.T }}"}}
    with pytest.raises(
        UsageError, match=r"hooks:fails cannot .* RuntimeError: not with {{ \.env\.T }}"
    ):
        KnowledgeService(build_project(_data(token), root=tmp_path, environ={"T": "abcdef"}))
    with pytest.raises(ConfigurationError, match="'hooks' is not of the form"):
        _service(tmp_path, "hooks")


class Approximate(MemoryStore):
    """A store that is notified when a load ends."""

    is_exact = False

    def finish_load(self, space: Partition) -> None:
        self.finished = space


class Own(StoreWrapper):
    """A custom wrapper that records every call."""

    def __init__(self, inner: VectorStore) -> None:
        super().__init__(inner)
        self.seen: list[StoreCall] = []

    async def wrap_call(self, request: StoreCall, call_next: Callable[[], Awaitable[Any]]) -> Any:
        self.seen.append(request)
        return await call_next()


@pytest.mark.parametrize("kind", [MemoryStore, Approximate])
def test_a_wrapped_store_can_do_what_its_inner_can(kind: type[MemoryStore]) -> None:
    """A wrapper has exactly the abilities of its store, also nested and with custom classes."""
    inner = kind()
    inner.filters, inner.returns_vectors, inner.counts_fast = True, False, False
    for store in (StoreWrapper(inner), Own(StoreWrapper(inner))):
        assert isinstance(store, VectorStore)
        assert isinstance(store, ApproximateStore) is (kind is Approximate)
        assert (store.is_exact, store.filters) == (inner.is_exact, True)
        assert (store.returns_vectors, store.counts_fast) == (False, False)
        assert str(store) == "memory store"


def test_a_wrapper_may_not_take_away_what_a_store_can(tmp_path: Path) -> None:
    """The error names the wrapper, the missing ability and the fix."""
    (tmp_path / "hooks.py").write_text(HOOKS, encoding="utf-8")
    (tmp_path / "notes.py").write_text("SEEN = []\n", encoding="utf-8")
    loaded = build_project(_data("hooks:lossy"), root=tmp_path)
    middleware = Middleware(loaded.project.wrappers, loaded.environment)
    with pytest.raises(
        PluginError, match=r"'hooks:lossy': Plain is not an ApproximateStore, .* from StoreWrapper"
    ):
        middleware.store(Approximate())
    assert isinstance(middleware.store(MemoryStore()), VectorStore)


async def test_every_method_passes_around() -> None:
    """Each method of the protocol passes `wrap_call` once, with its index and arguments."""
    inner = Approximate()
    store: Any = Own(inner)
    to = Driver(store, space())
    await to.add([1], vectors(1))
    await to.nearest(vectors(1)[0])
    await to.get(1)
    await store.finish_load(to.space)
    assert inner.finished == to.space
    assert await to.counts(1)
    await to.delete(1)
    await to.drop()
    await to.close()
    assert [request.name for request in store.seen] == [
        "add",
        "nearest",
        "get",
        "finish_load",
        "count",
        "delete",
        "drop",
        "close",
    ]
    *calls, closed = store.seen
    assert {call.index for call in calls} == {INDEX}
    assert closed.index is None


class Flaky(MemoryStore):
    """Fails a given number of times before it searches."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = list(failures)
        self.calls = 0

    def nearest(self, *arguments: Any) -> SearchHits:
        self.calls += 1
        if self.failures:
            raise StoreError("it failed") from self.failures.pop(0)
        return super().nearest(*arguments)

    def close(self) -> None:
        self.calls += 1
        raise StoreError("it failed") from ConnectionError()


async def _searched(store: Flaky, attempts: int = 3) -> list[float]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    retry = RetryConfig(attempts=attempts, backoff_ms=100)
    wrapped = StoreRetries(retry, sleep=sleep, random=lambda: 1.0).store(store)
    await Driver(wrapped, space()).nearest(vectors(1)[0])
    return waits


async def test_what_passes_is_tried_again() -> None:
    """Lost connections and timeouts are retried after exponential waits."""
    store = Flaky(ConnectionResetError(), TimeoutError())
    assert await _searched(store) == [0.1, 0.2]
    assert store.calls == 3


async def test_what_does_not_pass_is_raised_at_once() -> None:
    """A refusal is raised without a retry, and a lasting outage after the last attempt."""
    store = Flaky(ValueError("malformed"))
    with pytest.raises(StoreError, match=r"^it failed$"):
        await _searched(store)
    assert store.calls == 1
    store = Flaky(*[ConnectionError() for _ in range(9)])
    with pytest.raises(StoreError, match="it failed; gave up after 3 attempts"):
        await _searched(store)
    assert store.calls == 3
    store = Flaky()
    with pytest.raises(StoreError):
        await call(StoreRetries(RetryConfig(attempts=3)).store(store).close)
    assert store.calls == 1


async def test_what_belongs_to_another_is_never_handed_on(tmp_path: Path) -> None:
    """Results of another tenant, knowledge base, document or text are refused."""
    service = _service(tmp_path, {"type": "isolation"})
    docs = service.open("docs")
    await ingest(docs.corpus())
    assert len(await docs.query("keys")) == 2
    kb = docs.kb
    answer = await search((kb,), "keys", kb.retrieval)

    async def isolated(
        asked_of: IndexedKnowledgeBase, result: QueryResult, **settings: Any
    ) -> QueryResult:
        async def answers(request: Retrieval) -> QueryResult:
            return result

        request = Retrieval((asked_of,), "keys", RetrievalDeclaration(**settings))
        return await Isolation().retrieval(answers)(request)

    async def refused(asked_of: IndexedKnowledgeBase, result: QueryResult) -> None:
        with pytest.raises(
            StoreError, match="not belong to these knowledge bases; the whole result"
        ):
            await isolated(asked_of, result)

    assert await isolated(kb, answer) == answer
    for name in ("tenant", "project", "scope", "kb"):
        owner = replace(kb.namespace, **{name: "other"})
        await refused(replace(kb, namespace=owner), answer)
    await refused(replace(kb, id="other"), answer)
    first, *others = answer.matches
    for forged in (
        replace(first, text="Keys are never rotated."),
        replace(first, metadata={**first.metadata, "uri": "bills"}),
        replace(first, metadata={}),
    ):
        await refused(kb, replace(answer, matches=[*others, forged]))
    grown = replace(answer, matches=[replace(first, text="before. " + first.text)])
    assert await isolated(kb, grown, neighbours=1) == grown
    await service.close()


async def test_a_document_that_repeats_itself(tmp_path: Path) -> None:
    """A passage that a document repeats many times belongs to it each time."""
    documents = [{"id": "song", "text": "\n\n".join(["la la la " * 20] * 12)}]
    base = {
        "id": "docs",
        "sources": [{"type": "inline", "documents": documents}],
        "chunking": {"strategy": "recursive_text_splitter", "size": 180, "overlap": 0},
        "preprocess": {"dedupe": False},
        "retrieval": {"top_k": 50},
    }
    service = _service(tmp_path, {"type": "isolation"}, knowledge_bases=[base])
    docs = service.open("docs")
    await ingest(docs.corpus())
    assert len(await docs.query("la")) >= 12
    await service.close()


async def test_a_forged_row_is_found_out(tmp_path: Path) -> None:
    """A forged row in the catalog, which stores the texts, makes the whole result an error."""
    service = _service(tmp_path, {"type": "isolation"})
    docs = service.open("docs")
    await ingest(docs.corpus())
    kb = docs.kb
    with kb.catalog.lease(kb.namespace) as lease, kb.catalog.writing(lease) as sql:
        sql.run("update catalog_chunks set text = 'forged' where text like 'K%'")
    with pytest.raises(StoreError, match="the whole result was discarded"):
        await docs.query("keys")
    await service.close()
