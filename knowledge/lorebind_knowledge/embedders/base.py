"""What an embedder is, and the two functions through which everything else calls one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lorebind_knowledge.bridge import call, lane
from lorebind_knowledge.embedders.tokens import TokenCount, estimated
from lorebind_knowledge.errors import EmbedderError, LorebindError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from lorebind_knowledge.records import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What makes two vectors comparable: a change of any field makes another embedder."""

    provider: str
    model: str
    revision: str = ""
    dimension: int | None = None
    """As configured; None where only a call can tell. An index records the measured one."""
    normalised: bool = True
    document_prefix: str = ""
    query_prefix: str = ""
    formerly: tuple[str, ...] = field(default=(), compare=False)
    """The keys that earlier versions gave this embedder. They do not tell embedders apart."""
    address: str = field(default="", compare=False)
    """A digest of its address, see `address_digest`. It does not tell embedders apart either: an
    ingest at another address checks once that the vectors are the same."""

    @property
    def key(self) -> str:
        """SHA-256 over all other fields, each with its name."""
        return _key(self)

    def made(self, key: str) -> bool:
        """Whether an index with this key has the vectors of this embedder."""
        return key == self.key or key in self.formerly

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


@lru_cache(maxsize=64)  # every question asks for it
def _key(fingerprint: Fingerprint) -> str:
    told = [one.name for one in fields(fingerprint) if one.compare]
    return digest(*(f"{name}={getattr(fingerprint, name)}" for name in told))


def address_digest(*addresses: str) -> str:
    """What an index keeps of the addresses that made it: neither them nor their passwords."""
    return digest(*(re.sub("//[^/]*@", "//", one) for one in addresses)) if addresses else ""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Write the methods `def` or `async def`, whichever is native.

    A method written `def` is called in a thread. One written `async def` is awaited on the event
    loop of an async caller, and on a loop of Lorebind's own for callers that block: open
    connections for each loop. `bridge.call_client` suits a client that has both kinds of methods.

    An implementation inherits the protocol to get its defaults. Vectors are float32; row i of the
    result belongs to text i. Exceptions of a provider may pass through as they are: callers see
    them as `EmbedderError`.
    """

    batch_size: int = 64
    """How many texts one call should carry. A crash repeats at most the calls under way."""

    max_concurrent: int = 1
    """How many calls an ingest should have under way at a time."""

    hit_score: float | None = None
    """The cosine from which a question's best passage usually answers it; None if unknown."""

    @property
    def fingerprint(self) -> Fingerprint: ...

    def embed_documents(self, texts: Sequence[str]) -> Matrix | Awaitable[Matrix]:
        """Vectors of shape (texts, dimension)."""
        ...

    def embed_query(self, text: str) -> Vector | Awaitable[Vector]:
        """One vector of shape (dimension,)."""
        ...

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of these texts are longer than the model reads, and so are cut."""
        return 0

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        """How many tokens embedding these texts would take, without asking any provider.

        For no texts it still says what would count. To be quick: a plan counts all that is new.
        """
        return estimated(texts)


async def embed_documents(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Embed texts, and make sure that what comes back is one finite vector for each.

    No texts give a matrix without rows, and call nobody.

    Raises:
        EmbedderError: when the embedder fails or returns something else.
    """
    import numpy as np

    if not texts:
        return np.zeros((0, embedder.fingerprint.dimension or 0), dtype=np.float32)
    vectors = await _guarded(embedder, embedder.embed_documents, list(map(encodable, texts)))
    return _as_matrix(vectors, len(texts), embedder.fingerprint)


async def embed_query(embedder: Embedder, text: str) -> Vector:
    """Embed a question, with the same checks as `embed_documents`."""
    with lane("wait"):
        vector = await _guarded(embedder, embedder.embed_query, encodable(text))
    row: Vector = _as_matrix([vector], 1, embedder.fingerprint)[0]
    return row


def encodable(text: str) -> str:
    """The text with a question mark for each half of a character, which JSON can hold alone."""
    return text.encode("utf-8", "replace").decode()


async def _guarded(embedder: Embedder, method: Any, argument: Any) -> Any:
    try:
        return await call(method, argument)
    except LorebindError:
        raise
    except Exception as error:  # any provider's own exceptions: named, and kept as the cause
        raise EmbedderError(
            f"embedder {embedder.fingerprint} failed: {type(error).__name__}: {error}"
        ) from error


def _as_matrix(vectors: Any, count: int, fingerprint: Fingerprint) -> Matrix:
    import numpy as np

    try:
        matrix = np.ascontiguousarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(
            f"embedder {fingerprint} returned vectors of unequal length or not of numbers"
        ) from error
    expected = fingerprint.dimension
    if matrix.ndim != 2 or matrix.shape[0] != count or (expected and matrix.shape[1] != expected):
        raise EmbedderError(
            f"embedder {fingerprint} returned an array of shape {matrix.shape} for {count} texts; "
            f"expected ({count}, {expected or 'dimension'})"
        )
    if not np.isfinite(matrix).all():
        raise EmbedderError(f"embedder {fingerprint} returned a vector that is not finite")
    return matrix
