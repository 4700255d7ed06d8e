"""Ingests that are observed at every step, and interrupted at any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lorebind_config.errors import LorebindError, StoreError
from lorebind_knowledge.catalog.ledger import Ledger
from lorebind_knowledge.catalog.versions import Versions
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.stores.sqlite import SqliteStore

from .noting_embedder import Noting

SEEN = (
    *((Index, name) for name in ("publish", "remove", "sweep", "drop")),
    *((SqliteStore, name) for name in ("add", "delete", "drop")),
    (Ledger, "activate_index"),
)
"""The operations of an ingest whose effects a search may see."""
UNSEEN = (
    *((Versions, name) for name in ("stage", "publish", "collect_dead", "forget")),
    (Index, "stage"),
    (Ledger, "put_documents"),
    (Noting, "embed_documents"),
)

CUT_OFF = "an outage that was planned"


class Steps:
    """Runs a check after each step of the calls above, and interrupts the ingest at `fatal`."""

    def __init__(self, look: Callable[[], None], fatal: int | str | None, *, cancels: bool) -> None:
        self._look = look
        self._fatal = fatal
        self._taken = 0
        self._cancels = cancels
        self._cancel: Callable[[], object] = lambda: None

    async def run(self, ingest: Coroutine[Any, Any, Any]) -> Any:
        """Return the outcome of an ingest, or None if it was interrupted."""
        loop, task = asyncio.get_running_loop(), asyncio.create_task(ingest)
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            return await task
        except (LorebindError, asyncio.CancelledError) as error:
            if isinstance(error, LorebindError) and CUT_OFF not in str(error):
                raise
            return None

    def step(self, name: str) -> None:
        self._taken += 1
        if self._fatal in (self._taken, name):
            self._fatal = None
            if not self._cancels:
                raise StoreError(CUT_OFF)
            self._cancel()

    def watched(self, owner: Any, name: str) -> Callable[..., Any]:
        write, full_name = getattr(owner, name), f"{owner.__name__.rpartition('.')[2]}.{name}"

        def watched(*arguments: Any, **settings: Any) -> Any:
            self.step(f"before {full_name}")
            done = write(*arguments, **settings)
            if (owner, name) in SEEN:
                self._look()
            self.step(f"after {full_name}")
            return done

        return watched

    @contextmanager
    def watching(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in (*SEEN, *UNSEEN):
                patch.setattr(owner, name, self.watched(owner, name))
            yield
