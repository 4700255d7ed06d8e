"""The sparse embedder interface, and the functions that all other code calls it through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders.base import guarded
from lorebind_knowledge.plumbing.lanes import lane
from lorebind_knowledge.plumbing.tokenizing import encodable
from lorebind_knowledge.records import IDS_END, SparseVector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from lorebind_knowledge.embedders.base import Fingerprint


@runtime_checkable
class SparseEmbedder(Protocol):
    """Turns texts into weighted terms, as `Embedder` turns them into dense vectors.

    The terms are not only the words of a text: a learned model adds related words and weighs all of
    them. `Embedder` describes the rules for `def` and `async def` methods, threads, event loops and
    exceptions, which are the same here. An implementation inherits from the protocol to get its
    defaults.
    """

    batch_size: int = 64
    """Number of texts per call. After a crash, at most the calls in progress are repeated."""

    max_concurrent: int = 1
    """Maximum number of concurrent calls that an ingest should make."""

    languages: frozenset[str] | None = None
    """ISO 639-1 codes of the languages that it knows; None means any language."""

    @property
    def fingerprint(self) -> Fingerprint:
        """The identity of the embedder; its `dimension` is the number of terms, if it is known.

        Anything that changes ids or weights must change the fingerprint.
        """
        ...

    def embed_documents(
        self, texts: Sequence[str]
    ) -> list[SparseVector] | Awaitable[list[SparseVector]]:
        """Return one vector per text, in the order of the texts."""
        ...

    def embed_query(self, text: str) -> SparseVector | Awaitable[SparseVector]:
        """Return the vector of a question."""
        ...

    def terms(self, ids: Sequence[int]) -> list[str]:
        """Return the name of each term for explanations, or an empty text if it is not known.

        Parts of words stay as the model has them, for example `##ing`.
        """
        ...


def from_indices(indices: Any, values: Any) -> SparseVector:
    """Return a vector from the indices and values of Qdrant's interfaces.

    Their indices are unsigned integers of 32 bits, often hashes of words. The highest bit is
    dropped, which hardly ever makes two of them equal.
    """
    import numpy as np

    ids = np.asarray(indices)
    return SparseVector(np.where(ids >= IDS_END, ids - IDS_END, ids), np.asarray(values))


async def embed_documents(embedder: SparseEmbedder, texts: Sequence[str]) -> list[SparseVector]:
    """Embed texts, and check that the embedder returns one valid vector per text.

    Without texts, the embedder is not called.

    Raises:
        EmbedderError: the embedder fails or returns anything else.
    """
    if not texts:
        return []
    fingerprint = embedder.fingerprint
    vectors = await guarded(embedder, embedder.embed_documents, list(map(encodable, texts)))
    if not isinstance(vectors, list | tuple) or len(vectors) != len(texts):
        count = f"{len(vectors)} items" if isinstance(vectors, list | tuple) else "no list"
        raise EmbedderError(
            f"embedder {fingerprint} returned {count} for {len(texts)} texts; "
            f"expected a list of {len(texts)} vectors"
        )
    return [_normalised(vector, fingerprint) for vector in vectors]


async def embed_query(embedder: SparseEmbedder, text: str) -> SparseVector:
    """Embed a question, with the same checks as `embed_documents`."""
    with lane("wait"):
        vector = await guarded(embedder, embedder.embed_query, encodable(text))
    return _normalised(vector, embedder.fingerprint)


def _normalised(vector: Any, fingerprint: Fingerprint) -> SparseVector:
    """Check a vector, sort its terms, add up equal ones, and drop weights that are not positive."""
    import numpy as np

    if not isinstance(vector, SparseVector):
        raise EmbedderError(
            f"embedder {fingerprint} returned a {type(vector).__name__} for a text; "
            "expected a SparseVector"
        )
    ids, weights = np.asarray(vector.ids), np.asarray(vector.weights)
    if ids.ndim != 1 or ids.shape != weights.shape:
        raise EmbedderError(
            f"embedder {fingerprint} returned ids of shape {ids.shape} and weights of shape "
            f"{weights.shape} for a text; expected one weight per id"
        )
    if len(ids) == 0:
        return SparseVector(np.zeros(0, np.int64), np.zeros(0, np.float32))
    if ids.dtype.kind not in "iu" or weights.dtype.kind not in "iuf":
        raise EmbedderError(
            f"embedder {fingerprint} returned ids of type {ids.dtype} and weights of type "
            f"{weights.dtype}; expected integers and real numbers"
        )
    end = min(fingerprint.dimension or IDS_END, IDS_END)
    if ids.min() < 0 or ids.max() >= end:
        raise EmbedderError(
            f"embedder {fingerprint} returned a term with the id "
            f"{ids.min() if ids.min() < 0 else ids.max()}; expected ids from 0 to {end - 1}"
        )
    ids = ids.astype(np.int64)
    sums: Any = weights
    if (ids[1:] <= ids[:-1]).any():
        ids, rows = np.unique(ids, return_inverse=True)
        sums = np.bincount(rows, weights)
    with np.errstate(over="ignore"):  # a weight that is too large becomes infinite
        sums = sums.astype(np.float32)
    if not np.isfinite(sums).all():
        raise EmbedderError(f"embedder {fingerprint} returned a weight that is not finite")
    positive = sums > 0
    return SparseVector(ids[positive], sums[positive])
