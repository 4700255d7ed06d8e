"""`rerank` with a cross-encoder on ONNX Runtime, on real but tiny graphs."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import ConfigurationError, RerankerError
from lorebind_config.reading.loading import build_project
from lorebind_config.templates import Environment
from lorebind_knowledge.rerankers.base import make_reranker, rerank_texts
from lorebind_knowledge.rerankers.onnx import OnnxRerankDeclaration, OnnxReranker
from tests.density import examples

from . import onnx_models
from .bench import Bench
from .onnx_models import WEIGHTS


def logit(text: str) -> float:
    return sum(WEIGHTS.get(word, 0.0) for word in text.split())


def figure(text: str) -> float:
    return 1 / (1 + math.exp(-logit(text)))


def model_in(folder: Path, *, model: dict[str, Any] | None = None, **options: Any) -> OnnxReranker:
    path = onnx_models.write(folder, **(model or {}))
    return OnnxReranker(path, path.with_name("tokenizer.json"), **options)


TEXTS = ["rotate keys", "snow", "", "filler " * 20 + "keys", "rotate rotate keys daily", "???"]


@pytest.mark.parametrize("classes", [1, 2])
async def test_figures_are_the_models(tmp_path: Path, classes: int) -> None:
    """Scores are the logistic function of the logits; of two classes, the second is relevance."""
    reranker = model_in(tmp_path, model={"classes": classes}, batch_size=2)
    figures = await rerank_texts(reranker, "question question", TEXTS)
    assert figures == pytest.approx([figure(text) for text in TEXTS])


async def test_extremes(tmp_path: Path) -> None:
    """A score stays in 0 to 1 for any logit."""
    figures = await rerank_texts(model_in(tmp_path), "q", ["huge huge", "snow " * 400, "filler"])
    assert figures == pytest.approx([1.0, 0.0, 0.5])


def test_no_texts(tmp_path: Path) -> None:
    """Without texts the model does not run."""
    assert model_in(tmp_path).rerank("q", []) == []


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> OnnxReranker:
    return model_in(tmp_path_factory.mktemp("alone"), batch_size=1)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> OnnxReranker:
    return model_in(tmp_path_factory.mktemp("together"), batch_size=5)


@settings(max_examples=examples(30), deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from([*WEIGHTS, "filler", "\ud800"]), max_size=30).map(" ".join),
        max_size=12,
    )
)
def test_what_stands_beside_it_does_not_matter(
    alone: OnnxReranker, together: OnnxReranker, texts: list[str]
) -> None:
    """Padding, sorting and batches change no score, and each stays with its text."""
    assert together.rerank("rotate", texts) == pytest.approx(alone.rerank("rotate", texts))


def test_long_passages_are_cut(tmp_path: Path) -> None:
    """The longer text is truncated at its end: here the passage, while the question is complete."""
    text = "keys " * 30 + "snow"
    assert model_in(tmp_path, max_length=16).rerank("rotate", [text]) == pytest.approx(
        [figure("keys " * 12)]
    )
    assert model_in(tmp_path).rerank("rotate", [text]) == pytest.approx([figure(text)])
    assert model_in(tmp_path, max_length=8).rerank("rotate " * 50, [text])[0] is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork(tmp_path: Path) -> None:
    """A child loads its own model and does not wait for threads of its parent."""
    reranker = model_in(tmp_path, threads=2)
    reranker.rerank("q", TEXTS)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if len(reranker.rerank("q", TEXTS)) == len(TEXTS) else 1)
    assert os.waitpid(child, 0)[1] == 0


async def test_many_at_a_time(tmp_path: Path) -> None:
    """Concurrent tasks share one model."""
    reranker = model_in(tmp_path)
    calls = [rerank_texts(reranker, "q", TEXTS[:count]) for count in range(1, 7)]
    for scores in await asyncio.gather(*calls):
        assert scores == pytest.approx([figure(text) for text in TEXTS[: len(scores)]])


# Refusals.


async def refusal(reranker: OnnxReranker) -> str:
    with pytest.raises(RerankerError) as raised:
        await rerank_texts(reranker, "q", ["a", "b"])
    return str(raised.value)


async def test_files_that_are_not_there(tmp_path: Path) -> None:
    """The error names the missing model or tokenizer."""
    path = onnx_models.write(tmp_path)
    gone = tmp_path / "gone"
    assert f"there is no model {gone}" in await refusal(
        OnnxReranker(gone, path.with_name("tokenizer.json"))
    )
    assert f"cannot read the tokenizer {gone}: No such file" in await refusal(
        OnnxReranker(path, gone)
    )


async def test_files_of_another_kind(tmp_path: Path) -> None:
    """Errors name files that are not a model, tokenizer or cross-encoder, and what they are."""
    path = onnx_models.write(tmp_path)
    tokenizer = path.with_name("tokenizer.json")
    assert "cannot load the model" in await refusal(OnnxReranker(tokenizer, tokenizer))
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert "is not a tokenizer.json" in await refusal(OnnxReranker(path, other))
    three = model_in(tmp_path / "three", model={"classes": 3})
    assert "shape (2, 3) for 2 pairs; expected (2, 1) or (2, 2)" in await refusal(three)
    names = model_in(tmp_path / "names", model={"inputs": "input_ids attention_mask pixels"})
    assert "has an input 'pixels' of tensor(int64)" in await refusal(names)


async def test_figures_that_are_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that returns NaN makes the search fail."""
    monkeypatch.setitem(WEIGHTS, "huge", float("nan"))
    reranker = model_in(tmp_path)
    with pytest.raises(RerankerError, match="not finite"):
        await rerank_texts(reranker, "q", ["huge"])


# Declarations.


def test_declared(tmp_path: Path) -> None:
    """Paths are relative to the project; by default the tokenizer is next to the model."""
    path = onnx_models.write(tmp_path / "models")
    declared = OnnxRerankDeclaration(provider="onnx", model_path="{{ .env.FOLDER }}/model.onnx")
    reranker = make_reranker(declared, Environment(tmp_path, {"FOLDER": "models"}))
    assert isinstance(reranker, OnnxReranker)
    assert reranker.rerank("q", ["keys"]) == pytest.approx([figure("keys")])
    path.with_name("tokenizer.json").rename(tmp_path / "words.json")
    declared = declared.model_copy(update={"tokenizer_path": "words.json"})
    reranker = make_reranker(declared, Environment(tmp_path, {"FOLDER": "models"}))
    assert isinstance(reranker, OnnxReranker)
    assert reranker.rerank("q", ["keys"]) == pytest.approx([figure("keys")])


def project(rerank: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "p",
        "knowledge_bases": [
            {
                "id": "docs",
                "sources": [{"type": "markdown_glob", "path": "*.md"}],
                "retrieval": {"strategy": "rerank", "rerank": rerank},
            }
        ],
    }


@pytest.mark.parametrize(
    ("rerank", "message"),
    [
        ({"provider": "onnx"}, r"rerank\.model_path: missing key 'model_path'"),
        ({"provider": "onnx", "model_path": ""}, r"rerank\.model_path: "),
        ({"provider": "onnx", "model_path": "a", "max_length": 4}, r"rerank\.max_length: .*8"),
        ({"provider": "onnx", "model_path": "a", "batch_size": 0}, r"rerank\.batch_size: .*1"),
        (
            {"provider": "onnx", "model_path": "a", "class": "a:B"},
            r"unknown key 'class'.*onnx|class",
        ),
        ({"provider": "onx", "model_path": "a"}, r"'onx' is not supported; did you mean 'onnx'"),
        ({"model_path": "a"}, r"class"),
    ],
)
def test_declarations_that_cannot_be(tmp_path: Path, rerank: dict[str, Any], message: str) -> None:
    """Invalid declarations are refused with their location, in terms of rerankers."""
    with pytest.raises(ConfigurationError, match=message):
        build_project(project(rerank), root=tmp_path, environ={})


def test_left_out_it_is_of_langchain(tmp_path: Path) -> None:
    """A declaration with a class and without a provider means LangChain, as before."""
    loaded = build_project(project({"class": "a.b:C"}), root=tmp_path, environ={})
    rerank = loaded.knowledge_base("docs", None)[0].retrieval.rerank
    assert rerank is not None
    assert rerank.written() == {"class": "a.b:C"}


async def test_a_search(bench: Bench, tmp_path: Path) -> None:
    """The model's score becomes the match's score, and `min_score` applies to it."""
    onnx_models.write(tmp_path / "models")
    texts: Sequence[str] = ["rotate keys", "keys filler", "snow keys"]
    for number, text in enumerate(texts):
        bench.write(f"{number}.md", text)
    bench.change(reranker=lambda declared: make_reranker(declared, Environment(tmp_path, {})))
    await bench.ingest()
    rerank = {"provider": "onnx", "model_path": "models/model.onnx"}
    hits = await bench.ask("keys", strategy="rerank", rerank=rerank)
    assert [match.text for match in hits] == list(texts)
    assert [match.score for match in hits] == pytest.approx(
        [figure(text) for text in texts], abs=1e-6
    )
    assert all(match.scores["rerank"] == pytest.approx(match.score, abs=1e-6) for match in hits)
    few = await bench.ask("keys", strategy="rerank", rerank=rerank, min_score=0.7)
    assert [match.text for match in few] == texts[:2]
    assert RetrievalDeclaration.model_validate({"rerank": rerank}).rerank is not None
