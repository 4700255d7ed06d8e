"""Embedder wrappers, and the functions that make declared embedders."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar

from lorebind_config.errors import EmbedderError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_knowledge.embedders.base import Embedder
from lorebind_knowledge.events import Event, kind_of
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_config.declarations.embedders import EmbedderBase, SparseEmbedderBase
    from lorebind_config.namespace import Namespace
    from lorebind_config.templates import Environment
    from lorebind_knowledge.embedders.base import Fingerprint, TokenCount
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.events import Events

R = TypeVar("R")


class EmbedderWrapper(Embedder):
    """Delegates to the inner embedder. Subclass it and override `wrap_call`, or single methods.

    It wraps embedders of both kinds, and has the methods of both; those that the inner embedder
    lacks raise AttributeError. `is_sparse` tells which kind it is.
    """

    def __init__(self, inner: Embedder | SparseEmbedder) -> None:
        self.inner: Any = inner

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

    async def embed_documents(self, texts: Sequence[str]) -> Any:
        return await self.wrap_call(
            "embed_documents", texts, lambda: call(self.inner.embed_documents, texts)
        )

    async def embed_query(self, text: str) -> Any:
        return await self.wrap_call(
            "embed_query", [text], lambda: call(self.inner.embed_query, text)
        )

    @property
    def vectors(self) -> Literal["dense", "sparse"]:
        """The kind of the vectors, for events and spans."""
        return "sparse" if is_sparse(self) else "dense"

    @property
    def fingerprint(self) -> Fingerprint:
        fingerprint: Fingerprint = self.inner.fingerprint
        return fingerprint

    # Properties, because an embedder lowers its batch size when a batch is refused. Their types are
    # those of the attributes that both protocols declare.

    batch_size: int = property(lambda self: self.inner.batch_size)  # type: ignore[assignment]
    max_concurrent: int = property(lambda self: self.inner.max_concurrent)  # type: ignore[assignment]
    languages: frozenset[str] | None = property(lambda self: self.inner.languages)  # type: ignore[assignment]

    def count_truncated(self, texts: Sequence[str]) -> int:
        return int(self.inner.count_truncated(texts))

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        count: TokenCount = self.inner.count_tokens(texts)
        return count

    def terms(self, ids: Sequence[int]) -> list[str]:
        terms: list[str] = self.inner.terms(ids)
        return terms


def is_sparse(embedder: Embedder | SparseEmbedder) -> TypeGuard[SparseEmbedder]:
    """Check whether an embedder returns sparse vectors, also within wrappers."""
    while isinstance(embedder, EmbedderWrapper):
        embedder = embedder.inner
    return hasattr(
        embedder, "terms"
    )  # `isinstance` would compute the fingerprint, which may be slow


class AnnouncingEmbedder(EmbedderWrapper):
    """Emits `embedder_called` after each call, on behalf of the knowledge base that makes it."""

    def __init__(
        self, inner: Embedder | SparseEmbedder, events: Events, namespace: Namespace
    ) -> None:
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
                "vectors": self.vectors,
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


_SPARSE_MEMBERS = ("fingerprint", "embed_documents", "embed_query", "batch_size", "terms")


def make_sparse_embedder(
    declaration: SparseEmbedderBase, environment: Environment
) -> SparseEmbedder:
    """Make the declared sparse embedder, as `make_embedder` does."""
    secrets = PartEnvironment(environment)
    embedder: SparseEmbedder = make_part(
        "sparse_embedders", declaration, secrets, _SPARSE_MEMBERS, EmbedderError, RedactingEmbedder
    )
    return embedder


class RedactingEmbedder(EmbedderWrapper):
    """Removes the secrets that the embedder was given from the messages of its exceptions."""

    def __init__(self, inner: Embedder | SparseEmbedder, environment: PartEnvironment) -> None:
        super().__init__(inner)
        self._environment = environment

    async def wrap_call(
        self, name: str, texts: Sequence[str], call_next: Callable[[], Awaitable[R]]
    ) -> R:
        with self._environment.redact_errors(EmbedderError, f"embedder {self.fingerprint} failed"):
            return await call_next()
