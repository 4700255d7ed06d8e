"""An embedder that sends an event to the extensions after each call."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from lorebind_knowledge.embedders.wrapper import EmbedderWrapper
from lorebind_knowledge.events import Event, kind_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.events import Events



class AnnouncingEmbedder(EmbedderWrapper):
    """Emits `embedder_called` after each call, on behalf of the knowledge base that makes it."""

    def __init__(self, inner: Embedder, events: Events, namespace: Namespace) -> None:
        super().__init__(inner)
        self._events, self._namespace = events, namespace

    async def around(self, name: str, texts: Sequence[str], ask: Callable[[], Awaitable[R]]) -> R:
        started, kind = time.perf_counter(), ""
        try:
            return await ask()
        except BaseException as error:
            kind = kind_of(error)
            raise
        finally:
            data = {
                "operation": name,
                "count": len(texts),
                "seconds": time.perf_counter() - started,
                "kind": kind,
            }
            event = Event(self._namespace.kb, data=data, namespace=self._namespace)
            self._events.emit("embedder_called", event)
