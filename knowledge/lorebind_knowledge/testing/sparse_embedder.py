"""The conformance tests of `SparseEmbedder`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lorebind_knowledge.embedders.sparse.base import SparseEmbedder, embed_documents, embed_query
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import IDS_END, SparseVector
from lorebind_knowledge.testing.embedder import ODDITIES, PASSAGES


class SparseEmbedderConformance:
    """The tests of `SparseEmbedder`. Inherit it and define a fixture `make_embedder`.

    The fixture returns a function that makes a new embedder, as after a restart. A fixture
    `secrets` may return configured texts that must not be shown.
    """

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def make_embedder(self) -> Callable[[], SparseEmbedder]:
        raise NotImplementedError("define a fixture named `make_embedder` that returns a function")

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return ()

    @pytest.fixture
    def embedder(self, make_embedder: Callable[[], SparseEmbedder]) -> SparseEmbedder:
        return make_embedder()

    async def test_is_a_sparse_embedder(self, embedder: SparseEmbedder) -> None:
        """The embedder has the members of the protocol, and valid sizes and languages."""
        assert isinstance(embedder, SparseEmbedder)
        assert embedder.batch_size >= 1
        assert embedder.max_concurrent >= 1
        assert all(len(code) == 2 and code == code.lower() for code in embedder.languages or ())

    async def test_vectors(self, embedder: SparseEmbedder) -> None:
        """A text has distinct terms with positive weights; passages of some words have terms."""
        for vector in await embed_documents(embedder, PASSAGES):
            _check(vector, embedder)
            assert len(vector)
        question = await embed_query(embedder, PASSAGES[0])
        _check(question, embedder)
        assert len(question)

    async def test_no_term_occurs_twice(self, embedder: SparseEmbedder) -> None:
        """The methods themselves return each term of a text once, with a finite weight."""
        returned = await call(embedder.embed_documents, PASSAGES)
        for vector in [*returned, await call(embedder.embed_query, PASSAGES[0])]:
            assert len(np.unique(vector.ids)) == len(vector.ids)
            assert np.isfinite(vector.weights).all()

    async def test_questions_and_passages_have_common_terms(self, embedder: SparseEmbedder) -> None:
        """A passage scores higher for a question with its own words than other passages do."""
        passages = await embed_documents(embedder, PASSAGES[:3])
        for at, text in enumerate(PASSAGES[:3]):
            question = await embed_query(embedder, text)
            scores = [_score(question, passage) for passage in passages]
            assert scores[at] == max(scores) > 0

    async def test_a_text_has_one_vector(self, embedder: SparseEmbedder) -> None:
        """A text has the same vector alone, in a batch, and in another order."""
        together = await embed_documents(embedder, PASSAGES)
        backwards = await embed_documents(embedder, PASSAGES[::-1])
        for text, vector, other in zip(PASSAGES, together, backwards[::-1], strict=True):
            (alone,) = await embed_documents(embedder, [text])
            _assert_same(other, vector)
            _assert_same(alone, vector)

    async def test_vectors_belong_to_their_texts(self, embedder: SparseEmbedder) -> None:
        """Different texts have different vectors, and equal texts equal ones."""
        vectors = await embed_documents(embedder, [*PASSAGES, *PASSAGES])
        half = len(PASSAGES)
        for at in range(half):
            _assert_same(vectors[at], vectors[half + at])
            for other in range(at):
                assert not _is_same(vectors[at], vectors[other])

    async def test_more_than_a_batch(self, embedder: SparseEmbedder) -> None:
        """More texts than `batch_size` are embedded too."""
        texts = [f"passage {number}" for number in range(embedder.batch_size + 1)]
        vectors = await embed_documents(embedder, texts)
        assert len(vectors) == len(texts)
        _assert_same(vectors[-1], (await embed_documents(embedder, texts[-1:]))[0])

    async def test_no_texts(self, embedder: SparseEmbedder) -> None:
        """No texts give no vectors."""
        assert list(await call(embedder.embed_documents, [])) == []

    async def test_odd_texts(self, embedder: SparseEmbedder) -> None:
        """Empty and very long texts, any script and broken Unicode have valid vectors."""
        for vector in await embed_documents(embedder, ODDITIES):
            _check(vector, embedder)
        for text in ODDITIES:
            _check(await embed_query(embedder, text), embedder)

    async def test_terms_have_names(self, embedder: SparseEmbedder) -> None:
        """`terms` returns one text per id, also for ids that no vector contains."""
        (vector,) = await embed_documents(embedder, PASSAGES[:1])
        ids = [*vector.ids.tolist(), IDS_END - 1]
        names = await call(embedder.terms, ids)
        assert len(names) == len(ids)
        assert all(isinstance(name, str) for name in names)
        backwards = await call(embedder.terms, ids[::-1])
        assert backwards[::-1] == names
        assert list(await call(embedder.terms, [])) == []

    async def test_the_fingerprint_is_stable(
        self, make_embedder: Callable[[], SparseEmbedder]
    ) -> None:
        """The fingerprint and the vectors are the same after a restart and after use."""
        first, second = make_embedder(), make_embedder()
        assert first.fingerprint == second.fingerprint
        assert first.fingerprint.key == second.fingerprint.key
        before = await embed_documents(first, PASSAGES)
        for vector, other in zip(before, await embed_documents(second, PASSAGES), strict=True):
            _assert_same(vector, other)
        assert first.fingerprint.key == second.fingerprint.key

    async def test_no_secrets_are_shown(
        self, embedder: SparseEmbedder, secrets: Sequence[str]
    ) -> None:
        """Secrets appear neither in the fingerprint nor in the texts of the embedder."""
        await embed_query(embedder, "question")
        texts = f"{embedder!r} {embedder} {embedder.fingerprint!r} {embedder.fingerprint}"
        assert not [secret for secret in secrets if secret in texts]

    async def test_tasks(self, embedder: SparseEmbedder) -> None:
        """Concurrent tasks get the same vectors as single calls."""
        expected = await embed_documents(embedder, PASSAGES)
        results = await asyncio.gather(
            *(embed_documents(embedder, PASSAGES[at % 5 :]) for at in range(6))
        )
        for at, vectors in enumerate(results):
            for vector, other in zip(vectors, expected[at % 5 :], strict=True):
                _assert_same(vector, other)

    async def test_threads_and_event_loops(self, embedder: SparseEmbedder) -> None:
        """Threads with their own event loops can use the embedder, concurrently or in turn."""
        expected = await embed_documents(embedder, PASSAGES)

        def ask(at: int) -> None:
            vectors = asyncio.run(embed_documents(embedder, PASSAGES[at % 5 :]))
            for vector, other in zip(vectors, expected[at % 5 :], strict=True):
                _assert_same(vector, other)

        def ask_all() -> None:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(ask, range(6)))

        await asyncio.to_thread(ask_all)
        _assert_same((await embed_documents(embedder, PASSAGES[:1]))[0], expected[0])


def _check(vector: SparseVector, embedder: SparseEmbedder) -> None:
    """Check a vector as all code receives it."""
    assert vector.ids.dtype == np.int64
    assert vector.weights.dtype == np.float32
    assert vector.ids.shape == vector.weights.shape
    assert (np.diff(vector.ids) > 0).all()
    assert np.isfinite(vector.weights).all()
    assert (vector.weights > 0).all()
    assert (vector.ids >= 0).all()
    assert (vector.ids < (embedder.fingerprint.dimension or IDS_END)).all()


def _score(question: SparseVector, passage: SparseVector) -> float:
    _, ours, theirs = np.intersect1d(question.ids, passage.ids, return_indices=True)
    return float(question.weights[ours] @ passage.weights[theirs])


def _is_same(vector: SparseVector, other: SparseVector) -> bool:
    return np.array_equal(vector.ids, other.ids) and np.allclose(
        vector.weights, other.weights, atol=1e-4
    )


def _assert_same(vector: SparseVector, other: SparseVector) -> None:
    np.testing.assert_array_equal(vector.ids, other.ids)
    np.testing.assert_allclose(vector.weights, other.weights, atol=1e-4)
