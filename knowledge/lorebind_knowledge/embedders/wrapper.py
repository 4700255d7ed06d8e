"""The base class of embedder wrappers: every call passes through one method."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lorebind_knowledge.embedders.base import Embedder
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lorebind_knowledge.embedders.base import Fingerprint
    from lorebind_knowledge.embedders.tokens import TokenCount
    from lorebind_knowledge.records import Matrix, Vector

R = TypeVar("R")


class EmbedderWrapper(Embedder):
    """Delegates to the inner embedder. Subclass it and override `around`, or single methods."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner

    async def around(self, name: str, texts: Sequence[str], ask: Callable[[], Awaitable[R]]) -> R:
        """Wrap each call. `await ask()` makes the call; use it once, several times or not at all.

        Args:
            name: `embed_documents` or `embed_query`.
            texts: the texts to embed.
            ask: makes the call.
        """
        return await ask()

    async def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return await self.around(
            "embed_documents", texts, lambda: call(self.inner.embed_documents, texts)
        )

    async def embed_query(self, text: str) -> Vector:
        return await self.around("embed_query", [text], lambda: call(self.inner.embed_query, text))

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
