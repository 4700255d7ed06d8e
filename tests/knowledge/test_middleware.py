"""Wrappers: what a project puts around its embedders, stores and searches, and in which order."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from lorebind_knowledge import KnowledgeService, build_project
from lorebind_knowledge.bridge import call
from lorebind_knowledge.declarations import RetrievalDeclaration
from lorebind_knowledge.declarations.embedders import RetryConfig
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.errors import (
    ConfigurationError,
    IndexMismatchError,
    PluginError,
    StoreError,
    UsageError,
)
from lorebind_knowledge.middleware.isolation import Isolation
from lorebind_knowledge.middleware.retrying import StoreRetries
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.project_code import import_of_project
from lorebind_knowledge.records import SearchOptions
from lorebind_knowledge.stores import MemoryStore
from lorebind_knowledge.stores.base import (
    ApproximateStore,
    BulkStore,
    FetchStore,
    LexicalStore,
    VectorStore,
)
from lorebind_knowledge.stores.wrapper import StoreWrapper
from lorebind_knowledge.testing.store_driver import INDEX, Driver, record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from lorebind_knowledge.records import DocumentMatch, Vector
    from lorebind_knowledge.stores.wrapper import StoreCall

HOOKS = """\
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.stores.wrapper import StoreWrapper
from lorebind_knowledge.middleware.base import Wrapper
from .notes import SEEN


class Noting(Wrapper):
    def __init__(self, name="noting"):
        self.name = name

    def embedder(self, inner):
        name = self.name
        class Noted(EmbedderWrapper):
            async def around(self, method, texts, ask):
                SEEN.append((name, method))
                return await ask()
        return Noted(inner)

    def store(self, inner):
        name = self.name
        class Noted(StoreWrapper):
            async def around(self, asked, ask):
                SEEN.append((name, asked.name))
                return await ask()
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
                for name in ("open", "upsert", "publish", "similarity_search", "delete_by_filter",
                             "count", "drop", "close")
            })()
    return Lossy()


def nothing():
    return object()


def fails(token=None):
    raise RuntimeError(f"not with {token}")
"""

CAPABILITIES = (LexicalStore, FetchStore, BulkStore, ApproximateStore)


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
    """In the order declared, the first outermost, around embedders, stores and searches."""
    one = {"type": "python", "class": "hooks:Noting", "config": {"name": "one"}}
    service = _service(tmp_path, one, "hooks:Noting", "hooks:OnlyRetrieval")
    await service.ingest("docs")
    seen = import_of_project("notes:SEEN", tmp_path)
    assert ("one", "embed_documents") in seen
    assert ("noting", "replace_documents") in seen
    seen.clear()
    found = await service.query("docs", "keys rotated")
    assert found.matches[0].text == "Keys are rotated each month."
    assert found.strategy == "hybrid"
    assert seen[:3] == [("one", "retrieval"), ("noting", "retrieval"), ("only", "retrieval")]
    for name in ("embed_query", "similarity_search", "lexical_search"):
        at = [who for who, what in seen if what == name]
        assert at == ["one", "noting"] * (len(at) // 2) != []
    seen.clear()
    result = await service.query_several(["docs"], "keys", RetrievalDeclaration())
    assert len(result) == 2
    assert seen[0] == ("one", "retrieval")
    await service.close()


def test_wrappers_that_cannot_be_made_are_named(tmp_path: Path) -> None:
    """A factory that fails, without its secrets; one that makes nothing; one that takes away."""
    with pytest.raises(PluginError, match=r"hooks:nothing made a object, which has none of the"):
        _service(tmp_path, "hooks:nothing")
    token = {"type": "python", "class": "hooks:fails", "config": {"token": "{{ .env.T }}"}}
    with pytest.raises(
        UsageError, match=r"hooks:fails cannot .* RuntimeError: not with \[secret\]"
    ):
        KnowledgeService(build_project(_data(token), root=tmp_path, environ={"T": "abcdef"}))
    with pytest.raises(
        PluginError, match="'hooks:lossy': Plain is no LexicalStore and no FetchStore and no Bulk"
    ):
        _service(tmp_path, "hooks:lossy").store()
    with pytest.raises(ConfigurationError, match="'hooks' is not of the form"):
        _service(tmp_path, "hooks")


def _able(names: Sequence[type]) -> VectorStore:
    """A store with these capabilities and no others."""
    methods = {
        LexicalStore: "lexical_search",
        FetchStore: "fetch",
        BulkStore: "replace_documents",
        ApproximateStore: "finish_load",
    }
    basic = [name for name in vars(VectorStore) if not name.startswith("_")]

    async def answer(self: Any, *arguments: Any) -> str:
        return "answered"

    made = type("Made", (), dict.fromkeys([*basic, *(methods[name] for name in names)], answer))
    store: VectorStore = made()
    return store


@pytest.mark.parametrize(
    "able", [some for n in range(5) for some in itertools.combinations(CAPABILITIES, n)]
)
def test_a_wrapped_store_can_do_what_its_inner_can(able: Sequence[type]) -> None:
    """Neither less nor more, also when wrapped again and by a class of one's own."""

    class Own(StoreWrapper):
        pass

    for store in (StoreWrapper(_able(able)), Own(StoreWrapper(_able(able)))):
        assert isinstance(store, VectorStore)
        assert [kind for kind in CAPABILITIES if isinstance(store, kind)] == list(able)


async def test_every_method_passes_around() -> None:
    """Each method of the protocol and its capabilities is seen once, with what it is about."""
    seen: list[StoreCall] = []

    class Own(StoreWrapper):
        async def around(self, asked: StoreCall, ask: Callable[[], Awaitable[Any]]) -> Any:
            seen.append(asked)
            return await ask()

    store: Any = Own(MemoryStore())
    driver = Driver(store)
    await driver.open()
    await driver.add(record("a"))
    await driver.search()
    await driver.lexical("a")
    await driver.fetch("a")
    await store.replace_documents(INDEX, {"a.md": 1})
    assert await driver.count() == 1
    await driver.delete()
    await driver.drop()
    await driver.close()
    assert [asked.name for asked in seen] == [
        "open",
        "upsert",
        "publish",
        "similarity_search",
        "lexical_search",
        "fetch",
        "replace_documents",
        "count",
        "delete_by_filter",
        "drop",
        "close",
    ]
    assert {asked.index for asked in seen if asked.name not in ("upsert", "close")} == {INDEX}


class Flaky(MemoryStore):
    """Fails so many times before it searches."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = list(failures)
        self.asked = 0

    def similarity_search(self, vector: Vector, options: SearchOptions) -> list[DocumentMatch]:
        self.asked += 1
        if self.failures:
            raise StoreError("it failed") from self.failures.pop(0)
        return super().similarity_search(vector, options)

    def close(self) -> None:
        self.asked += 1
        raise StoreError("it failed") from ConnectionError()


async def _searched(store: Flaky, attempts: int = 3) -> list[float]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    retry = RetryConfig(attempts=attempts, backoff_ms=100)
    wrapped = StoreRetries(retry, sleep=sleep, random=lambda: 1.0).store(store)
    driver = Driver(wrapped)
    await driver.open()
    await driver.search()
    return waits


async def test_what_passes_is_tried_again() -> None:
    """Lost connections and time-outs, after exponential waits."""
    store = Flaky(ConnectionResetError(), TimeoutError())
    assert await _searched(store) == [0.1, 0.2]
    assert store.asked == 3


async def test_what_does_not_pass_is_raised_at_once() -> None:
    """A refusal is no outage, and neither is an outage that lasts."""
    store = Flaky(ValueError("malformed"))
    with pytest.raises(StoreError, match=r"^it failed$"):
        await _searched(store)
    assert store.asked == 1
    store = Flaky(*[ConnectionError() for _ in range(9)])
    with pytest.raises(StoreError, match="it failed; gave up after 3 tries"):
        await _searched(store)
    assert store.asked == 3
    store = Flaky()
    with pytest.raises(StoreError):
        await call(StoreRetries(RetryConfig(attempts=3)).store(store).close)
    assert store.asked == 1
    wrapped = Driver(StoreRetries(RetryConfig(attempts=3)).store(MemoryStore()))
    await wrapped.open()
    with pytest.raises(IndexMismatchError):
        await wrapped.open(dimension=5)


async def test_what_belongs_to_another_is_never_handed_on(tmp_path: Path) -> None:
    """A store that mixes up tenants, knowledge bases or documents is found out at the first hit."""
    service = _service(tmp_path, {"type": "isolation"})
    await service.ingest("docs")
    assert len(await service.query("docs", "keys")) == 2

    class Mixing(StoreWrapper):
        """Answers every question from the index of one knowledge base."""

        victim: IndexKey

        async def similarity_search(
            self, vector: Vector, options: SearchOptions
        ) -> list[DocumentMatch]:
            options = SearchOptions(self.victim, options.top_k)
            return await call(self.inner.similarity_search, vector, options)

        async def fetch(self, index: IndexKey, ids: Any) -> Any:
            return await call(self.inner.fetch, self.victim, ids)  # type: ignore[attr-defined]

    kb = service.knowledge_base("docs")
    entry = kb.catalog.ledger.index(kb.namespace, "active")
    assert entry is not None
    mixing = Mixing(kb.store)
    mixing.victim = entry.key
    isolated: Any = Isolation().store(mixing)
    vector = HashingEmbedder().embed_query("keys")
    assert await isolated.similarity_search(vector, SearchOptions(entry.key))
    names = ("default", "p", "project", "docs")
    for at in (0, 3):
        owner = Namespace(*(f"{name}2" if n == at else name for n, name in enumerate(names)))
        with pytest.raises(StoreError, match="which is not of this index; nothing of the answer"):
            await isolated.similarity_search(vector, SearchOptions(IndexKey(owner)))
    (found, *_) = await isolated.similarity_search(vector, SearchOptions(entry.key))
    assert await isolated.fetch(entry.key, [found.id])
    stranger = IndexKey(Namespace("other", "p", "project", "docs"))
    with pytest.raises(StoreError, match="fetch gave the passage"):
        await isolated.fetch(stranger, [found.id])
    await service.close()
