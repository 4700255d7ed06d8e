"""The conformance tests of `Embedder`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from lorebind_knowledge.embedders.base import Embedder, embed_documents, embed_query
from lorebind_knowledge.plumbing.bridge import call

PASSAGES = [
    "Rotate the key in the settings, then restart the workers.",
    "The cat sat on the mat.",
    "Refunds are paid within ten days.",
    "key",
    "A longer passage about engines, mechanics and yearly service. " * 6,
]
ODDITIES = [
    "",
    " \t\r\n ",
    "\0",
    "\ufeff\u200b\u00ad",
    "漢字かな交じり文",
    "e\u0301 é İstanbul ß",
    "🜚👩‍👩‍👧🇩🇪",
    "\u202eright to left\u202c שלום",
    "half a character: \ud83d",
    "<|endoftext|> [CLS] [PAD]",
    "x" * 20_000,
]


class EmbedderConformance:
    """The tests of `Embedder`. Inherit it and define a fixture `make_embedder`.

    The fixture returns a function that makes a new embedder, as after a restart. A fixture
    `secrets` may return configured texts that must not be shown.
    """

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def make_embedder(self) -> Callable[[], Embedder]:
        raise NotImplementedError("define a fixture named `make_embedder` that returns a function")

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return ()

    @pytest.fixture
    def embedder(self, make_embedder: Callable[[], Embedder]) -> Embedder:
        return make_embedder()

    async def test_is_an_embedder(self, embedder: Embedder) -> None:
        """The embedder has the members of the protocol, and valid sizes."""
        assert isinstance(embedder, Embedder)
        assert embedder.batch_size >= 1

    async def test_shapes(self, embedder: Embedder) -> None:
        """Each text has one finite float32 row, of the dimension in the fingerprint."""
        matrix = await embed_documents(embedder, PASSAGES)
        assert matrix.shape[0] == len(PASSAGES)
        assert matrix.dtype == np.float32
        assert np.isfinite(matrix).all()
        assert embedder.fingerprint.dimension in (None, matrix.shape[1])

    async def test_questions_and_passages_can_be_compared(self, embedder: Embedder) -> None:
        """The vector of a question has the shape of those of passages, and is float32."""
        (passage,) = await embed_documents(embedder, PASSAGES[:1])
        question = await embed_query(embedder, PASSAGES[0])
        assert question.shape == passage.shape
        assert question.dtype == np.float32

    async def test_a_text_has_one_vector(self, embedder: Embedder) -> None:
        """A text has the same vector, within 1e-5, alone, in a batch, and in another order."""
        together = await embed_documents(embedder, PASSAGES)
        backwards = await embed_documents(embedder, PASSAGES[::-1])
        np.testing.assert_allclose(backwards[::-1], together, atol=1e-5)
        for text, row in zip(PASSAGES, together, strict=True):
            (alone,) = await embed_documents(embedder, [text])
            np.testing.assert_allclose(alone, row, atol=1e-5)

    async def test_rows_belong_to_their_texts(self, embedder: Embedder) -> None:
        """Different texts have different vectors, and equal texts equal ones."""
        matrix = await embed_documents(embedder, [*PASSAGES, *PASSAGES])
        half = len(PASSAGES)
        np.testing.assert_allclose(matrix[:half], matrix[half:], atol=1e-5)
        for at in range(half):
            for other in range(at):
                assert np.abs(matrix[at] - matrix[other]).max() > 1e-3

    async def test_more_than_a_batch(self, embedder: Embedder) -> None:
        """More texts than `batch_size` are embedded too."""
        texts = [f"passage {number}" for number in range(embedder.batch_size + 1)]
        matrix = await embed_documents(embedder, texts)
        assert matrix.shape[0] == len(texts)
        (last,) = await embed_documents(embedder, texts[-1:])
        np.testing.assert_allclose(matrix[-1], last, atol=1e-5)

    async def test_no_texts(self, embedder: Embedder) -> None:
        """No texts give no rows."""
        matrix = await embed_documents(embedder, [])
        assert matrix.shape[0] == 0
        assert matrix.ndim == 2
        assert await call(embedder.count_truncated, []) == 0

    async def test_odd_texts(self, embedder: Embedder) -> None:
        """Empty and very long texts, any script and broken Unicode have finite vectors."""
        matrix = await embed_documents(embedder, ODDITIES)
        assert np.isfinite(matrix).all()
        for text, row in zip(ODDITIES, matrix, strict=True):
            assert (await embed_query(embedder, text)).shape == row.shape
        assert 0 <= await call(embedder.count_truncated, ODDITIES) <= len(ODDITIES)

    async def test_tokens_are_counted(self, embedder: Embedder) -> None:
        """The tokens of texts are the sum of each text's tokens, and the tokenizer has a name."""
        one_by_one = [embedder.count_tokens([text]) for text in ODDITIES]
        together = embedder.count_tokens(ODDITIES)
        assert together.tokens == sum(count.tokens for count in one_by_one) > 0
        assert embedder.count_tokens([]) == replace(together, tokens=0)
        assert together.tokenizer

    async def test_the_fingerprint_is_stable(self, make_embedder: Callable[[], Embedder]) -> None:
        """The fingerprint and the vectors are the same after a restart and after use."""
        first, second = make_embedder(), make_embedder()
        assert first.fingerprint == second.fingerprint
        assert first.fingerprint.key == second.fingerprint.key
        before = await embed_documents(first, PASSAGES)
        np.testing.assert_allclose(await embed_documents(second, PASSAGES), before, atol=1e-5)
        assert first.fingerprint.key == second.fingerprint.key

    async def test_no_secrets_are_shown(self, embedder: Embedder, secrets: Sequence[str]) -> None:
        """Secrets appear neither in the fingerprint nor in the texts of the embedder."""
        await embed_query(embedder, "question")
        texts = f"{embedder!r} {embedder} {embedder.fingerprint!r} {embedder.fingerprint}"
        assert not [secret for secret in secrets if secret in texts]

    async def test_tasks(self, embedder: Embedder) -> None:
        """Concurrent tasks get the same vectors as single calls."""
        expected = await embed_documents(embedder, PASSAGES)
        matrices = await asyncio.gather(
            *(embed_documents(embedder, PASSAGES[at % 5 :]) for at in range(6))
        )
        for at, matrix in enumerate(matrices):
            np.testing.assert_allclose(matrix, expected[at % 5 :], atol=1e-5)

    async def test_threads_and_event_loops(self, embedder: Embedder) -> None:
        """Threads with their own event loops can use the embedder, concurrently or in turn."""
        expected = await embed_documents(embedder, PASSAGES)

        def ask(at: int) -> None:
            matrix = asyncio.run(embed_documents(embedder, PASSAGES[at % 5 :]))
            np.testing.assert_allclose(matrix, expected[at % 5 :], atol=1e-5)

        def ask_all() -> None:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(ask, range(6)))

        await asyncio.to_thread(ask_all)
        np.testing.assert_allclose(await embed_documents(embedder, PASSAGES), expected, atol=1e-5)
