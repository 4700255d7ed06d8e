"""The embedder interface, and the functions that all other code calls embedders through."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lorebind_config.declarations.embedders import NONE
from lorebind_config.errors import EmbedderError, LorebindError
from lorebind_config.namespace import digest
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.lanes import lane
from lorebind_knowledge.plumbing.tokenizing import EncodingName, encodable, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from lorebind_knowledge.records import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The properties that make vectors comparable: changing any field means another embedder."""

    provider: str
    model: str
    revision: str = ""
    dimension: int | None = None
    """As configured; None if only a call can tell. An index records the measured dimension."""
    normalised: bool = True
    document_prefix: str = ""
    query_prefix: str = ""
    address: str = field(default="", compare=False)
    """Digest of the service's address, see `address_digest`. It is ignored in comparisons: when the
    address has changed, an ingest checks once that the vectors are the same."""

    @property
    def key(self) -> str:
        """SHA-256 over all compared fields, each with its name."""
        return _key(self)

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}" if self.model else self.provider


NO_VECTORS = Fingerprint(NONE, "", dimension=1)
"""The fingerprint of the embedder of knowledge bases without vectors."""


def makes_vectors(embedder: Identified) -> bool:
    """Check whether searches can compare the vectors of an embedder."""
    return embedder.fingerprint != NO_VECTORS


@lru_cache(maxsize=64)  # read for every question
def _key(fingerprint: Fingerprint) -> str:
    names = [field.name for field in fields(fingerprint) if field.compare]
    return digest(*(f"{name}={getattr(fingerprint, name)}" for name in names))


def address_digest(*addresses: str) -> str:
    """Return a digest of the addresses that an index can store without storing passwords."""
    return (
        digest(*(re.sub("//[^/]*@", "//", address) for address in addresses)) if addresses else ""
    )


OPENAI_ENCODING: EncodingName = "cl100k_base"
"""The encoding of all of OpenAI's embedding models."""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The number of tokens of some texts, and the tokenizer that counted them."""

    tokens: int
    tokenizer: str
    """The encoding's name, or `len/4`."""
    exact: bool
    """Whether the model's provider counts the same."""


def estimated(texts: Iterable[str]) -> TokenCount:
    """Count one token per four characters of each text, rounded up."""
    return TokenCount(sum((len(text) + 3) // 4 for text in texts), "len/4", exact=False)


def counted(texts: Iterable[str]) -> TokenCount:
    """Count the tokens that OpenAI's embedding models read, each text by itself.

    Raises:
        MissingDependencyError: the encoding is not installed.
    """
    tokens = sum(len(encode(OPENAI_ENCODING, text)) for text in texts)
    return TokenCount(tokens, OPENAI_ENCODING, exact=True)


class Identified(Protocol):
    """Has a fingerprint: an embedder of either kind."""

    @property
    def fingerprint(self) -> Fingerprint: ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Write each method as `def` or `async def`, whichever is native.

    A `def` method is called in a thread. An `async def` method is awaited on the event loop of an
    async caller, or on Lorebind's own loop for a sync caller: open connections per loop.
    `bridge.call_client` suits a client that has both kinds of methods.

    An implementation inherits from the protocol to get its defaults. Vectors are float32; row i of
    the result belongs to text i. A provider's exceptions may pass through unchanged: callers see
    them as `EmbedderError`.
    """

    batch_size: int = 64
    """Number of texts per call. After a crash, at most the calls in progress are repeated."""

    max_concurrent: int = 1
    """Maximum number of concurrent calls that an ingest should make."""

    @property
    def fingerprint(self) -> Fingerprint:
        """The identity of the embedder; an index is only searched with vectors of the same one."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Matrix | Awaitable[Matrix]:
        """Return vectors of shape (texts, dimension)."""
        ...

    def embed_query(self, text: str) -> Vector | Awaitable[Vector]:
        """Return one vector of shape (dimension,)."""
        ...

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Return the number of texts that are truncated because they exceed the model's limit."""
        return 0

    def count_tokens(self, texts: Sequence[str]) -> TokenCount:
        """Return how many tokens embedding these texts takes, without calling a provider.

        Given no texts, it still names the tokenizer. Must be fast: `plan` counts all new texts.
        """
        return estimated(texts)


async def embed_documents(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Embed texts, and check that the embedder returns one finite vector per text.

    Returns a matrix of shape (texts, dimension). Without texts, the embedder is not called and the
    matrix has no rows.

    Raises:
        EmbedderError: the embedder fails or returns anything else.
    """
    import numpy as np

    if not texts:
        return np.zeros((0, embedder.fingerprint.dimension or 0), dtype=np.float32)
    vectors = await guarded(embedder, embedder.embed_documents, list(map(encodable, texts)))
    return _as_matrix(vectors, len(texts), embedder.fingerprint)


async def embed_query(embedder: Embedder, text: str) -> Vector:
    """Embed a question, with the same checks as `embed_documents`."""
    with lane("wait"):
        vector = await guarded(embedder, embedder.embed_query, encodable(text))
    row: Vector = _as_matrix([vector], 1, embedder.fingerprint)[0]
    return row


async def guarded(embedder: Identified, method: Any, argument: Any) -> Any:
    """Call a method of an embedder; any error that is not Lorebind's becomes `EmbedderError`."""
    try:
        return await call(method, argument)
    except LorebindError:
        raise
    except Exception as error:  # any of the provider's own exceptions: named, stored as the cause
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
