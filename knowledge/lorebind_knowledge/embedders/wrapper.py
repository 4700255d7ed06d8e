"""Embedder wrappers, and the function that makes a declared embedder."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from lorebind_config.errors import EmbedderError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_knowledge.embedders.base import Embedder
from lorebind_knowledge.events import Event, kind_of
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_config.declarations.embedders import EmbedderBase
    from lorebind_config.namespace import Namespace
    from lorebind_config.templates import Environment
    from lorebind_knowledge.embedders.base import Fingerprint, TokenCount
    from lorebind_knowledge.events import Events
    from lorebind_knowledge.records import Matrix, Vector

R = TypeVar("R")


class EmbedderWrapper(Embedder):
    """Delegates to the inner embedder. Subclass it and override `wrap_call`, or single methods."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner

    async def wrap_call(
        self, name: str, texts: Sequence[str], call_next: Callable[[], Awaitable[R]]
    ) -> R:
        """Wrap each call. `await call_next()` makes the call: once, several times or not at all.

        Args:
            name: `embed_documents` or `embed_query`.
            texts: the texts to embed.
            call_next: makes the call.
        """
        return await call_next()

    async def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return await self.wrap_call(
            "embed_documents", texts, lambda: call(self.inner.embed_documents, texts)
        )

    async def embed_query(self, text: str) -> Vector:
        return await self.wrap_call(
            "embed_query", [text], lambda: call(self.inner.embed_query, text)
        )

    @property
    def fingerprint(self) -> Fingerprint:
        return self.inner.fingerprint

    # Properties, because an embedder lowers its batch size when a batch is refused.

    @property
    def batch_size(self) -> int:  # type: ignore[override]  # nobody sets it from outside
        return self.inner.batch_size

    @property
    def max_concurrent(self) -> int:  # type: ignore[override]
        return self.inner.max_concurrent

    def count_truncated(self, texts: Sequence[str]) -> int:
        return self.inner.count_truncated(texts)

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        return self.inner.count_tokens(texts)


class AnnouncingEmbedder(EmbedderWrapper):
    """Emits `embedder_called` after each call, on behalf of the knowledge base that makes it."""

    def __init__(self, inner: Embedder, events: Events, namespace: Namespace) -> None:
        super().__init__(inner)
        self._events, self._namespace = events, namespace

    async def wrap_call(
        self, name: str, texts: Sequence[str], call_next: Callable[[], Awaitable[R]]
    ) -> R:
        started, kind = time.perf_counter(), ""
        try:
            return await call_next()
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


_MEMBERS = (
    *("fingerprint", "embed_documents", "embed_query", "batch_size"),
    *("count_truncated", "count_tokens"),
)


def make_embedder(declaration: EmbedderBase, environment: Environment) -> Embedder:
    """Make the declared embedder; its libraries are loaded now or at the first call.

    Raises:
        EmbedderError: the declaration does not allow to make an embedder.
        PluginError: the plugin is broken.
    """
    secrets = PartEnvironment(environment)
    embedder: Embedder = make_part(
        "embedders", declaration, secrets, _MEMBERS, EmbedderError, RedactingEmbedder
    )
    return embedder


class RedactingEmbedder(EmbedderWrapper):
    """Removes the secrets that the embedder was given from the messages of its exceptions."""

    def __init__(self, inner: Embedder, environment: PartEnvironment) -> None:
        super().__init__(inner)
        self._environment = environment

    async def wrap_call(
        self, name: str, texts: Sequence[str], call_next: Callable[[], Awaitable[R]]
    ) -> R:
        with self._environment.redact_errors(EmbedderError, f"embedder {self.fingerprint} failed"):
            return await call_next()
