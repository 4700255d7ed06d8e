"""A cache of search results, each valid until its index changes."""

from __future__ import annotations

import copy
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.middleware import Wrapper
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.retrieval.base import emit_completed, emit_started
from lorebind_knowledge.retrieval.judging import stages_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.middleware import Retrieval, Retrieve
    from lorebind_knowledge.records import QueryResult

Key: TypeAlias = tuple[Any, ...]
Version: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    version: Version
    expires: float
    result: QueryResult


class QueryCache(Wrapper):
    """Returns the stored result of an identical search.

    A search is identified by everything that determines its result: tenant, project, scope and
    knowledge base, the question, and every setting. A stored result is valid as long as the same
    index is in use and no process has published changes in it; the catalog is asked each time.
    Errors are not stored. Each caller gets its own copy. The least recently used entry is evicted.
    """

    def __init__(
        self,
        max_entries: int,
        ttl_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_entries, self._ttl, self._clock = max_entries, ttl_seconds, clock
        # Searches come from all event loops and threads of the process.
        self._lock = threading.Lock()
        self._answers: OrderedDict[Key, _Answer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def retrieval(self, inner: Retrieve) -> Retrieve:
        async def cached(retrieval: Retrieval) -> QueryResult:
            started = time.perf_counter()
            version = await call(self._version, retrieval)
            if version is None:
                return await inner(retrieval)
            key = key_of(retrieval)
            stored = self._get(key, version)
            if stored is not None:
                result = replace(stored, seconds=time.perf_counter() - started)
                emit_started(retrieval.kbs, retrieval.question, retrieval.settings, cached=True)
                for kb in retrieval.kbs:
                    emit_completed(kb, retrieval.question, result, cached=True)
                return result
            result = await inner(retrieval)
            # If the index changed during the search, the result may be that of either version.
            if await call(self._version, retrieval) == version:
                self._put(key, version, result)
            return result

        return cached

    def _version(self, retrieval: Retrieval) -> Version | None:
        """Return the versions of the searched indexes; None if they are unknown, since there is no
        index of this embedder or others fill it."""
        versions = []
        for kb in retrieval.kbs:
            if not isinstance(kb, IndexedKnowledgeBase):
                return None
            version = kb.index.version(kb.namespace)
            if version is None or kb.embedder.fingerprint.key != version.embedder_key:
                return None
            versions.append(version)
        return tuple(versions)

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
        # Stored as a copy, because callers may change the metadata of a result.
        answer = _Answer(version, self._clock() + self._ttl, copy.deepcopy(result))
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            while len(self._answers) > self._max_entries:
                self._answers.popitem(last=False)


def key_of(retrieval: Retrieval) -> Key:
    """Return everything that determines a result, except for the content of the index."""
    settings = retrieval.settings
    stages = stages_of(settings)
    return (
        tuple((kb.namespace, *map(kb.weak_levels.of, stages)) for kb in retrieval.kbs),
        retrieval.question,
        settings.model_dump_json(),
    )
