"""The pool: an ingest hands batches of texts to workers, and waits until they are embedded.

One thread does all of that for all callers of a process, so that many batches share a transaction.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lorebind_config import errors
from lorebind_config.errors import EmbedderError, LeaseLostError, LorebindError, StoreError
from lorebind_config.namespace import digest
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.batches import CHANNEL, About, Batch, Batches
from lorebind_knowledge.catalog.embedding_cache import owner_of
from lorebind_knowledge.database.postgres_notifications import Notifications
from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.records import BatchCounts
from lorebind_knowledge.resilience.limits import FairSemaphore
from lorebind_knowledge.scale.engine import make_engine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.scale.engine import Engine

_MOST_CALLS = 256
"""Batches that wait for a worker, or are with one; it limits the memory in use."""
_AHEAD = 2
"""Batches submitted per live slot: one in hand, and one to begin with at once."""
_ALONE_SECONDS = 10.0
"""Seconds without a live slot after which the process of the ingest embeds by itself."""
_LOOK_SECONDS = 1.0
"""Seconds between two looks at the live slots."""
_AGAIN_SECONDS = 15.0
"""Seconds after which a batch that no worker has taken is submitted again."""
_POLL_SECONDS, _SLOW_POLL_SECONDS = 0.05, 1.0
"""Seconds between two looks at the batches, without and with notifications."""
_IDLE_SECONDS = 5.0
"""Seconds without a batch after which the thread ends."""

VERSION = version("lorebind")


def key_of(embedder: Any) -> str:
    """Return what identifies an embedder of either kind to workers: it, and Lorebind's version."""
    return digest(VERSION, *owner_of(embedder))[:32]


@dataclass
class _Waiting:
    """A batch with the call that waits for it."""

    batch: Batch
    lease: Lease
    done: Future[bool] = field(default_factory=Future)
    """Whether a worker has embedded it; if not, the caller has to."""
    submitted: float = 0.0


@dataclass
class _Slots:
    """The workers of an embedder."""

    live: int = 0
    looked: float = float("-inf")
    seen: float = field(default_factory=time.monotonic)
    """When there was a live slot, or when the first batch came."""

    @property
    def are_missing(self) -> bool:
        return not self.live and time.monotonic() - self.seen > _ALONE_SECONDS


class Pool:
    """A `Maker` whose texts are embedded by workers."""

    most_calls = _MOST_CALLS

    def __init__(self, database: PostgresDatabase, engine: Engine) -> None:
        self._batches, self.engine = Batches(database), engine
        self._notifications = Notifications(database)
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self._new: list[_Waiting] = []
        self._submitted: dict[str, _Waiting] = {}
        self._slots: dict[str, _Slots] = {}
        self._here: dict[str, FairSemaphore] = {}
        self._embedded_here: Counter[tuple[Lease, str]] = Counter()
        self._failed: Counter[str] = Counter()

    async def make(
        self, embedder: Any, new: Mapping[str, str], here: Callable[[], Awaitable[None]]
    ) -> None:
        lease = leases.held.get()
        assert lease is not None
        key = key_of(embedder)
        about = About(
            lease.namespace.tenant, lease.namespace.kb, str(embedder.fingerprint), VERSION
        )
        waiting = _Waiting(Batch(uuid.uuid4().hex, key, about, list(new.values())), lease)
        self._put(waiting)
        try:
            if await asyncio.wrap_future(waiting.done):
                return
        finally:
            self._woken.set()  # a cancelled batch is withdrawn
        with self._lock:
            slots = self._here.setdefault(key, FairSemaphore(max(embedder.max_concurrent, 1)))
        async with slots:
            await here()
        self._embedded_here[lease, about.embedder] += len(new)

    def notices(self, lease: Lease) -> list[str]:
        counts = {key: count for key, count in self._embedded_here.items() if key[0] == lease}
        for key in counts:
            del self._embedded_here[key]
        return [
            f"no worker was there for embedder {embedder}, so the ingest itself embedded {count} "
            "texts; start workers with: lorebind worker"
            for (_, embedder), count in counts.items()
        ]

    def count_slots(self, embedders: Iterable[Any], batches: dict[str, BatchCounts]) -> None:
        """Add the live slots of embedders, and the batches of this process that have failed.

        Raises:
            StoreError: the engine does not answer.
        """
        for embedder in embedders:
            key = key_of(embedder)
            counts = batches.setdefault(key, BatchCounts(str(embedder.fingerprint)))
            counts.slots, counts.failed = finish(self.engine.look_after(key)), self._failed[key]

    def close(self) -> None:
        self._notifications.close()
        finish(self.engine.close())

    def _put(self, waiting: _Waiting) -> None:
        with self._lock:
            self._new.append(waiting)
            if self._thread is None or not self._thread.is_alive():  # as after a fork
                # The last figures of the workers are out of date by now.
                self._slots.clear()
                self._thread = threading.Thread(target=self._run, name="lorebind-pool", daemon=True)
                self._thread.start()
        self._woken.set()

    def _run(self) -> None:
        self._notifications.listen(CHANNEL, self._on_done)
        idle_since = time.monotonic()
        while True:
            try:
                self._step()
            except Exception as error:  # of the database, or of an engine's library
                self._give_up(error)
            now = time.monotonic()
            if self._new or self._submitted:
                idle_since = now
            elif now - idle_since > _IDLE_SECONDS:
                # Under the lock, so that `_put` gives nothing to a thread that is about to end.
                with self._lock:
                    if not self._new:
                        self._thread = None
                        break
            received = self._notifications.are_received
            self._woken.wait(_SLOW_POLL_SECONDS if received else _POLL_SECONDS)
            self._woken.clear()
        self._notifications.stop(CHANNEL)

    def _on_done(self, batch: str) -> None:
        if batch in self._submitted:
            self._woken.set()

    def _step(self) -> None:
        with self._lock:
            self._new = [waiting for waiting in self._new if not waiting.done.cancelled()]
            new = list(self._new)
        self._withdraw(w for w in self._submitted.values() if w.done.cancelled())
        self._collect()
        for key in {w.batch.embedder for w in [*new, *self._submitted.values()]}:
            slots = self._slots.setdefault(key, _Slots())
            self._look_at(key, slots)
            ours = [waiting for waiting in new if waiting.batch.embedder == key]
            if slots.are_missing:
                self._hand_back(key, ours)
            else:
                there = sum(w.batch.embedder == key for w in self._submitted.values())
                self._submit(key, ours[: max(_AHEAD * max(slots.live, 1) - there, 0)])

    def _look_at(self, key: str, slots: _Slots) -> None:
        now = time.monotonic()
        if now - slots.looked < _LOOK_SECONDS:
            return
        slots.looked = now
        slots.live = finish(self.engine.look_after(key))
        if slots.live:
            slots.seen = now
        ours = {
            name: now - waiting.submitted > _AGAIN_SECONDS
            for name, waiting in self._submitted.items()
            if waiting.batch.embedder == key
        }
        # An engine may have lost those that are late, as when a worker ends the job of another.
        late = [name for name, is_late in ours.items() if is_late]
        orphans, gone = self._batches.orphans(ours.keys(), late) if ours else ([], set())
        if orphans:
            finish(self.engine.submit(key, orphans))
            for name in orphans:
                self._submitted[name].submitted = now
        with self._lock:  # submitted again, if the lease is still held
            self._new[:0] = [self._submitted.pop(name) for name in gone]

    def _submit(self, key: str, some: Iterable[_Waiting]) -> None:
        by_lease: dict[Lease, list[_Waiting]] = {}
        for waiting in some:
            by_lease.setdefault(waiting.lease, []).append(waiting)
        for lease, ours in by_lease.items():
            batches = [waiting.batch for waiting in ours]
            try:
                self._batches.add(lease, batches, leases.check)
            except LeaseLostError as error:
                self._take_off(ours)
                for waiting in ours:
                    _resolve(waiting, error)
                continue
            self._take_off(ours)
            for waiting in ours:
                waiting.submitted = time.monotonic()
                self._submitted[waiting.batch.id] = waiting
            # Noted before: a worker may be done with a batch before this returns.
            finish(self.engine.submit(key, [batch.id for batch in batches]))

    def _take_off(self, some: Iterable[_Waiting]) -> None:
        """Remove these from the batches that have not been submitted."""
        with self._lock:
            for waiting in some:
                self._new.remove(waiting)

    def _collect(self) -> None:
        if not self._submitted:
            return
        for name, error in self._batches.collect(self._submitted.keys()).items():
            waiting = self._submitted.pop(name)
            self._failed[waiting.batch.embedder] += bool(error)
            _resolve(waiting, _raised(error) if error else True)

    def _hand_back(self, key: str, new: Sequence[_Waiting]) -> None:
        """Let the callers embed by themselves."""
        submitted = [w for w in self._submitted.values() if w.batch.embedder == key]
        self._withdraw(submitted)
        self._take_off(new)
        for waiting in [*submitted, *new]:
            _resolve(waiting, False)

    def _withdraw(self, some: Iterable[_Waiting]) -> None:
        ids = [waiting.batch.id for waiting in some]
        if ids:
            self._batches.withdraw(ids)
            for name in ids:
                del self._submitted[name]

    def _give_up(self, error: Exception) -> None:
        if not isinstance(error, LorebindError):
            kind = type(error).__name__
            error = StoreError(f"texts cannot be handed to workers: {kind}: {error}")
        with self._lock:
            lost = [*self._new, *self._submitted.values()]
            self._new, self._submitted = [], {}
        for waiting in lost:
            _resolve(waiting, error)


def _resolve(waiting: _Waiting, outcome: bool | Exception) -> None:
    # A caller that was cancelled wants no outcome, and setting one would raise an error.
    if not waiting.done.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        waiting.done.set_exception(outcome)
    else:
        waiting.done.set_result(outcome)


def _raised(error: str) -> LorebindError:
    """Return the error of a worker, in the class that it had there."""
    about = json.loads(error)
    kind = getattr(errors, about["kind"], None)
    if isinstance(kind, type) and issubclass(kind, EmbedderError | errors.MissingDependencyError):
        return kind(about["message"])
    return EmbedderError(about["message"])


def make_pool(engine: str, database: PostgresDatabase) -> Pool:
    """Return the pool of a catalog, with the engine of this name."""
    return Pool(database, make_engine(engine, database))
