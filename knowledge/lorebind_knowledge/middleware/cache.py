"""What searches found, kept until it may have changed."""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from lorebind_knowledge.bridge import call
from lorebind_knowledge.events import Event
from lorebind_knowledge.middleware.base import Wrapper
from lorebind_knowledge.stores.wrapper import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_knowledge.middleware.base import Retrieval, Retrieve
    from lorebind_knowledge.namespace import Namespace
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.stores.base import VectorStore
    from lorebind_knowledge.stores.wrapper import StoreCall

R = TypeVar("R")
Key: TypeAlias = tuple[Any, ...]
Version: TypeAlias = tuple[Any, ...]

_CHANGING = ("publish", "replace_documents", "delete_by_filter", "drop")
_NAMESPACES = 10_000
"""Of which the last change is remembered; of others only that it was before a certain time."""


@dataclass(frozen=True, slots=True)
class _Answer:
    version: Version
    expires: float
    result: QueryResult


class QueryCache(Wrapper):
    """Answers a question again as it was answered before.

    An answer is known by all that decides it: tenant, project, scope and knowledge base, the
    question, and every setting. It is given while the index is the one that was searched, no ingest
    has begun since (in whatever process: the catalog tells) and nothing was written in this one.
    While an ingest is under way nothing is kept, since what can be found changes all the time.
    Errors are not kept. Each caller gets a copy of its own. The least recently used makes room.
    """

    def __init__(
        self,
        max_entries: int,
        ttl_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_entries, self._ttl, self._clock = max_entries, ttl_seconds, clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[Key, _Answer] = OrderedDict()
        self._changes = itertools.count(1)
        self._changed: OrderedDict[Namespace, int] = OrderedDict()
        self._changed_before = 0

    def __len__(self) -> int:
        return len(self._answers)

    def retrieval(self, inner: Retrieve) -> Retrieve:
        async def cached(asked: Retrieval) -> QueryResult:
            started = time.perf_counter()
            version = await call(self._version, asked)
            if version is None:
                return await inner(asked)
            key = key_of(asked)
            known = self._get(key, version)
            if known is not None:
                result = replace(known, seconds=time.perf_counter() - started)
                _announce(asked, result)
                return result
            result = await inner(asked)
            if await call(self._version, asked) == version:
                self._put(key, version, result)
            return result

        return cached

    def store(self, inner: VectorStore) -> VectorStore:
        return _Watched(inner, self)

    def note_change(self, namespace: Namespace) -> None:
        """Something of this namespace is being written: what was found of it is old."""
        with self._lock:
            self._changed[namespace] = next(self._changes)
            self._changed.move_to_end(namespace)
            while len(self._changed) > _NAMESPACES:
                _, self._changed_before = self._changed.popitem(last=False)

    def _version(self, asked: Retrieval) -> Version | None:
        """What is searched, None where it is not there or is just changing."""
        found: list[Any] = []
        for kb in asked.kbs:
            with self._lock:
                change = self._changed.get(kb.namespace, self._changed_before)
            index = kb.catalog.ledger.index(kb.namespace, "active")
            runs = kb.catalog.ledger.last_runs(kb.namespace, 1)
            if index is None or index.manifest.embedder_key != kb.embedder.fingerprint.key:
                return None
            run = runs[0] if runs else {"run_id": "", "status": ""}
            if run["status"] == "running":
                return None
            found.append((index.key.number, run["run_id"], change))
        return tuple(found)

    def _get(self, key: Key, version: Version) -> QueryResult | None:
        with self._lock:
            answer = self._answers.get(key)
            if answer is None:
                return None
            if answer.version != version or answer.expires <= self._clock():
                del self._answers[key]
                return None
            self._answers.move_to_end(key)
        return copy.deepcopy(answer.result)

    def _put(self, key: Key, version: Version, result: QueryResult) -> None:
        answer = _Answer(version, self._clock() + self._ttl, copy.deepcopy(result))
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            while len(self._answers) > self._max_entries:
                self._answers.popitem(last=False)


def key_of(asked: Retrieval) -> Key:
    """All that decides an answer, but for what is in the index."""
    settings = asked.settings
    return (
        tuple(kb.namespace for kb in asked.kbs),
        asked.together,
        asked.question,
        settings.model_dump_json(),
        # The default strategy gives way where a store cannot search words; a written one does not.
        "strategy" in settings.model_fields_set,
    )


def _announce(asked: Retrieval, result: QueryResult) -> None:
    """The events of a search, which say that it was none."""
    found = Counter(match.metadata.get("kb_id") for match in result.matches)
    settings = asked.settings
    for kb in asked.kbs:
        start = {"strategy": settings.strategy, "top_k": settings.top_k, "cached": True}
        kb.events.emit("retrieval_started", Event(kb.id, data=start))
    for kb in asked.kbs:
        done = {"strategy": result.strategy, "matches": found[kb.id], "seconds": result.seconds}
        kb.events.emit("retrieval_completed", Event(kb.id, data={**done, "cached": True}))


class _Watched(StoreWrapper):
    """Tells a cache of every write."""

    def __init__(self, inner: VectorStore, cache: QueryCache) -> None:
        super().__init__(inner)
        self._cache = cache

    async def around(self, asked: StoreCall, ask: Callable[[], Awaitable[R]]) -> R:
        if asked.name not in _CHANGING or asked.index is None:
            return await ask()
        try:
            return await ask()
        finally:  # a write that failed may have happened
            self._cache.note_change(asked.index.namespace)
