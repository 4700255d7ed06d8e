"""The built-in sparse model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders.local import LocalEmbedder, read_model
from lorebind_knowledge.embedders.sparse import local as local_module
from lorebind_knowledge.embedders.sparse.base import embed_documents, embed_query
from lorebind_knowledge.embedders.sparse.local import TERMS, LocalSparseEmbedder
from lorebind_knowledge.records import SparseVector

pytestmark = pytest.mark.usefixtures("models_run_again")

REFERENCES = json.loads((Path(__file__).parent / "splade_reference.json").read_text("utf-8"))
"""Texts with the weights of at least .05 that the published weights give in float32."""


@pytest.fixture(scope="module")
def sparse() -> LocalSparseEmbedder:
    """Load the real model once."""
    return LocalSparseEmbedder()


def by_term(embedder: LocalSparseEmbedder, vector: SparseVector) -> dict[str, float]:
    return dict(zip(embedder.terms(vector.ids.tolist()), vector.weights.tolist(), strict=True))


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference["text"][:20])
async def test_weights_are_those_of_the_published_model(
    reference: dict[str, Any], sparse: LocalSparseEmbedder
) -> None:
    """Rounding to 8 bits changes the weights of a text by less than .1, and their sum little."""
    text = reference["text"] * reference.get("repeat", 1)
    weights = by_term(sparse, await embed_query(sparse, text))
    terms = {*weights, *reference["weights"]}
    pairs = np.array([(weights.get(t, 0), reference["weights"].get(t, 0)) for t in terms])
    assert np.abs(pairs[:, 0] - pairs[:, 1]).max() < 0.1
    assert pairs[:, 0] @ pairs[:, 1] / np.prod(np.linalg.norm(pairs, axis=0)) > 0.998


async def test_related_words(sparse: LocalSparseEmbedder) -> None:
    """A question and a passage without a common word have common terms."""
    question = await embed_query(sparse, "install")
    passage, other = await embed_documents(
        sparse, ["The installation takes a minute.", "Cats sleep a lot."]
    )
    assert "installation" in by_term(sparse, question)
    assert _score(question, passage) > _score(question, other) + 2


async def test_light_terms_of_passages_are_dropped(sparse: LocalSparseEmbedder) -> None:
    """A passage keeps the terms of at least `min_weight`, with their weights; a question all."""
    text = "Rotate the key in the settings, then restart the workers."
    (passage,) = await embed_documents(sparse, [text])
    question = await embed_query(sparse, text)
    heavy = question.weights >= 0.6
    assert 0 < heavy.sum() < len(question)
    np.testing.assert_array_equal(passage.ids, question.ids[heavy])
    np.testing.assert_array_equal(passage.weights, question.weights[heavy])
    (whole,) = await embed_documents(LocalSparseEmbedder(min_weight=0), [text])
    np.testing.assert_array_equal(whole.ids, question.ids)


async def test_the_start_of_a_long_text(sparse: LocalSparseEmbedder) -> None:
    """Text beyond 254 word pieces does not affect the vector."""
    first, second = await embed_documents(sparse, ["word " * 254, "word " * 254 + "cat " * 50])
    np.testing.assert_array_equal(first.ids, second.ids)
    np.testing.assert_array_equal(first.weights, second.weights)


async def test_the_number_of_threads_changes_nothing(sparse: LocalSparseEmbedder) -> None:
    """Texts that run at the same time get the vectors that they get alone, in their order."""
    texts = [f"{'word ' * number} number {number}" for number in range(1, 40)]
    single = await embed_documents(LocalSparseEmbedder(threads=1), texts)
    several = await embed_documents(LocalSparseEmbedder(threads=8), texts)
    for one_thread, eight_threads in zip(single, several, strict=True):
        np.testing.assert_array_equal(one_thread.ids, eight_threads.ids)
        np.testing.assert_array_equal(one_thread.weights, eight_threads.weights)


def test_names_of_terms(sparse: LocalSparseEmbedder) -> None:
    """Terms are word pieces; an id outside of the vocabulary has no name."""
    assert sparse.terms([2017, 2075, TERMS]) == ["you", "##ing", ""]
    assert sparse.languages == {"en"}
    assert sparse.fingerprint.dimension == TERMS


def test_fingerprints_differ(tmp_path: Path) -> None:
    """Whatever changes the terms of a passage changes the fingerprint; the speed does not."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"some weights")
    standard = LocalSparseEmbedder().fingerprint
    assert LocalSparseEmbedder(threads=1, batch_size=3).fingerprint == standard
    assert LocalSparseEmbedder(min_weight=0.5).fingerprint.key != standard.key
    assert LocalSparseEmbedder(model_path=path).fingerprint.key != standard.key
    assert LocalEmbedder().fingerprint.key != standard.key


async def test_another_file(tmp_path: Path, sparse: LocalSparseEmbedder) -> None:
    """A graph at `model_path` is used; one that is missing or damaged is named in the error."""
    path = tmp_path / "model.onnx"
    with pytest.raises(EmbedderError, match=r"cannot read the model .*model.onnx: No such file"):
        await embed_query(LocalSparseEmbedder(model_path=path), "text")
    path.write_bytes(b"this is not a graph")
    with pytest.raises(EmbedderError, match="local/splade-tiny"):
        await embed_query(LocalSparseEmbedder(model_path=path), "text")
    shipped = Path(local_module.__file__).parent.parent / "splade_tiny.onnx"
    path.write_bytes(read_model(shipped))
    copied = await embed_query(LocalSparseEmbedder(model_path=path), "text")
    np.testing.assert_array_equal(copied.weights, (await embed_query(sparse, "text")).weights)


async def test_changed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shipped weights with a wrong checksum are refused with the command that repairs them."""
    monkeypatch.setattr(local_module, "_WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(EmbedderError, match="--force-reinstall --no-deps lorebind"):
        await embed_query(LocalSparseEmbedder(), "text")


def _score(question: SparseVector, passage: SparseVector) -> float:
    _, left, right = np.intersect1d(question.ids, passage.ids, return_indices=True)
    return float(question.weights[left] @ passage.weights[right])
