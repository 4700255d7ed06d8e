"""The interface of an engine: it delivers batches to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from lorebind_knowledge.database.databases import PostgresDatabase


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A live worker."""

    id: str
    works_on: Literal["texts", "ingests"]
    embedder: str
    """The embedder of its texts, or the key of it; empty if it works on ingests."""
    slots: int | None
    """Number of texts' batches at the same time; None if it is not known."""
    busy: int
    """Number of batches or ingests that it works on."""
    silent: float
    """Seconds since its last sign of life."""


@runtime_checkable
class Engine(Protocol):
    """Delivers ids of batches to the processes that serve their key. It never sees a text.

    Write each method except `serve` as `def` or `async def`, whichever is native. A plugin of the
    group `lorebind.engines` has a function `make(database)` that returns an engine for a catalog;
    see `make_engine`. Lorebind never relies on an engine for more than is written here: an id may
    be delivered twice, to two workers at the same time, or after its batch is done.

    An engine may also have a method `workers(keys)`, which returns a `WorkerInfo` for each worker
    of these keys. Without it, workers cannot be listed.
    """

    def submit(self, key: str, ids: Sequence[str]) -> Awaitable[None] | None:
        """Deliver each id at least once to a worker that serves the key, now or later.

        Args:
            key: the embedder of the batches, in at most 32 letters and digits.
            ids: the batches.

        Raises:
            StoreError: nothing was submitted.
        """
        ...

    def look_after(self, key: str) -> int | Awaitable[int]:
        """Give the ids of workers that have died or hang to others, and return the live slots.

        It is called every second by ingests that wait. Only the slots of workers that serve the
        key count. A worker counts as dead when nothing was heard of it for some seconds.

        Raises:
            StoreError: an outage.
        """
        ...

    async def serve(
        self,
        work: Callable[[str, str], Awaitable[object]],
        slots: Mapping[str, int],
        *,
        once: bool = False,
    ) -> None:
        """Await `work(key, id)` for each delivered id, until it is cancelled.

        When it is cancelled, it takes no further ids, and waits for those in hand. `work` raises
        nothing. After an outage it goes on by itself.

        Args:
            work: embeds a batch.
            slots: the number of ids to work on at the same time, by key. A slow key must not keep
                the slots of others.
            once: whether to return when no id is waiting.
        """
        ...

    def close(self) -> Awaitable[None] | None:
        """Close its connections; it opens new ones when it is used again."""
        ...


def make_engine(name: str, database: PostgresDatabase) -> Any:
    """Return the engine of a name for the catalog in a database.

    Raises:
        PluginError: there is no such engine, or its plugin is broken.
        MissingDependencyError: its library is not installed.
    """
    from lorebind_config.errors import PluginError
    from lorebind_config.plugins import load, offered

    offer = offered("engines", name)
    if offer is None:
        raise PluginError(f"engine {name!r} of lorebind.engines is no longer installed")
    return load(offer, ("make",)).make(database)
