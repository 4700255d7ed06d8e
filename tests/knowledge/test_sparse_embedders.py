"""The functions that all code calls sparse embedders through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.embedders.sparse.base import (
    IDS_END,
    SparseEmbedder,
    embed_documents,
    embed_query,
)
from lorebind_knowledge.embedders.sparse.local import LocalSparseEmbedder
from lorebind_knowledge.embedders.wrapper import EmbedderWrapper, is_sparse
from lorebind_knowledge.records import SparseVector


class Returning(SparseEmbedder):
    """Returns what it was created with, for any text."""

    def __init__(self, vectors: Any, dimension: int | None = None) -> None:
        self.vectors, self.dimension = vectors, dimension
        self.texts: list[str] = []

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("test", "returning", dimension=self.dimension)

    def embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        self.texts += texts
        if isinstance(self.vectors, Exception):
            raise self.vectors
        vectors: list[SparseVector] = self.vectors
        return vectors

    async def embed_query(self, text: str) -> SparseVector:
        return self.embed_documents([text])[0]

    def terms(self, ids: Sequence[int]) -> list[str]:
        return [str(number) for number in ids]


def sparse(ids: Any, weights: Any) -> SparseVector:
    return SparseVector(np.array(ids), np.array(weights))


async def test_terms_are_sorted_and_added_up() -> None:
    """Equal terms are one; terms without a positive weight are dropped."""
    untidy = sparse([7, 3, 7, 9, 4, 5], [1.0, 0.5, 2.0, 0.0, -1.0, 0.25])
    for vector in (
        (await embed_documents(Returning([untidy]), ["text"]))[0],
        await embed_query(Returning([untidy]), "text"),
    ):
        assert vector.ids.tolist() == [3, 5, 7]
        assert vector.weights.tolist() == [0.5, 0.25, 3.0]
        assert (vector.ids.dtype, vector.weights.dtype) == (np.int64, np.float32)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.floats(-1, 1, width=32)), max_size=60),
    st.sampled_from([np.int32, np.uint32, np.int64]),
    st.sampled_from([np.float32, np.float64]),
)
async def test_any_pairs(pairs: list[tuple[int, float]], ids: Any, weights: Any) -> None:
    """Each term has the sum of its weights, whatever the types of the numbers."""
    sums: dict[int, float] = {}
    for number, weight in pairs:
        sums[number] = sums.get(number, 0.0) + weight
    vector = await embed_query(
        Returning(
            [
                SparseVector(
                    np.array([number for number, _ in pairs], ids),
                    np.array([weight for _, weight in pairs], weights),
                )
            ]
        ),
        "text",
    )
    expected = {number: total for number, total in sums.items() if np.float32(total) > 0}
    assert vector.ids.tolist() == sorted(expected)
    for number, weight in zip(vector.ids.tolist(), vector.weights, strict=True):
        assert weight == pytest.approx(expected[number], rel=1e-6)


async def test_nothing_to_embed() -> None:
    """Without texts the embedder is not called; a text may have no terms."""
    embedder = Returning([sparse([], [])])
    assert await embed_documents(embedder, []) == []
    assert embedder.texts == []
    (vector,) = await embed_documents(embedder, ["half a character: \ud83d"])
    assert len(vector) == 0
    assert (vector.ids.dtype, vector.weights.dtype) == (np.int64, np.float32)
    assert embedder.texts[0].encode()


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (ValueError("no model"), "embedder test/returning failed: ValueError: no model"),
        (EmbedderError("as it is"), "as it is"),
        ([], "returned 0 items for 1 texts; expected a list of 1 vectors"),
        (np.zeros((1, 3)), "returned no list for 1 texts"),
        ([np.zeros(3)], "returned a ndarray for a text; expected a SparseVector"),
        ([sparse([1, 2], [1.0])], "ids of shape (2,) and weights of shape (1,)"),
        ([sparse([[1]], [[1.0]])], "expected one weight per id"),
        ([sparse([1.5], [1.0])], "ids of type float64"),
        ([sparse([1], ["a"])], "expected integers and real numbers"),
        ([sparse([-1], [1.0])], "a term with the id -1; expected ids from 0 to 99"),
        ([sparse([100], [1.0])], "a term with the id 100; expected ids from 0 to 99"),
        ([sparse([1], [np.nan])], "a weight that is not finite"),
        ([sparse([1], [1e300])], "a weight that is not finite"),
        ([sparse([1, 1], [np.inf, -np.inf])], "a weight that is not finite"),
    ],
)
async def test_invalid_vectors(vectors: Any, message: str) -> None:
    """Anything but one valid vector per text is an error that names the embedder."""
    with pytest.raises(EmbedderError) as error:
        await embed_documents(Returning(vectors, dimension=100), ["text"])
    assert message in str(error.value)


async def test_ids_fit_into_32_bits() -> None:
    """Without a known number of terms, any id of 31 bits is accepted."""
    assert (await embed_query(Returning([sparse([IDS_END - 1], [1.0])]), "text")).ids[0] > 0
    with pytest.raises(EmbedderError, match="expected ids from 0 to 2147483647"):
        await embed_query(Returning([sparse([IDS_END], [1.0])]), "text")


async def test_one_wrapper_for_both_kinds() -> None:
    """`is_sparse` tells the kind of an embedder, also within wrappers."""
    inner = Returning([sparse([1], [1.0])])
    wrapped = EmbedderWrapper(EmbedderWrapper(inner))
    assert is_sparse(inner)
    assert is_sparse(wrapped)
    assert isinstance(wrapped, SparseEmbedder)
    assert (await embed_query(wrapped, "text")).ids.tolist() == [1]
    assert wrapped.terms([1]) == ["1"]
    assert wrapped.languages is None
    assert EmbedderWrapper(LocalSparseEmbedder()).languages == {"en"}
    assert not is_sparse(HashingEmbedder())
    assert not is_sparse(EmbedderWrapper(HashingEmbedder()))
    assert not isinstance(inner, Embedder)
