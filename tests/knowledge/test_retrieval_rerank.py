"""`rerank`: LangChain compressors and custom rerankers, and their failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import Field

from lorebind_config.errors import RerankerError, UsageError
from lorebind_config.templates import Environment
from lorebind_knowledge.rerankers.base import Reranker, make_reranker, rerank_texts
from lorebind_knowledge.rerankers.langchain import RerankDeclaration

from .bench import Bench, paragraph

SECRET = "never-to-be-shown"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


class Compressor(BaseDocumentCompressor):
    """Reverses its documents, with scores if it has some."""

    figures: list[Any] = Field(default_factory=list)
    """Scores by position in the result; missing ones leave the last documents without a score."""
    keep: int = 100
    summary: bool = False
    key: str = ""
    fails: bool = False

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        if self.fails:
            raise ConnectionError(f"401 for the key {self.key}")
        if self.summary:
            return [Document("a summary", metadata={"relevance_score": 0.9})]
        reversed_ = list(documents)[::-1][: self.keep]
        for document, figure in zip(reversed_, self.figures, strict=False):
            document.metadata["relevance_score"] = figure
        return reversed_


class Refusing(Compressor):
    def __init__(self, key: str) -> None:
        raise ValueError(f"no such key: {key}")


class Ours:
    """A custom async reranker; `Blocking` is the sync one."""

    def __init__(self, figures: Any = None, key: str = "") -> None:
        self.figures = figures
        self.key = key
        self.heard: list[tuple[str, list[str]]] = []

    async def rerank(self, question: str, texts: Sequence[str]) -> Any:
        self.heard.append((question, list(texts)))
        if self.figures is not None:
            return self.figures
        return [1.0 if "zeta" in text else None if "beta" in text else 0.25 for text in texts]


class Blocking(Ours):
    def rerank(self, question: str, texts: Sequence[str]) -> Any:
        if self.key:
            raise ConnectionError(f"401 for the key {self.key}")
        return [0.5] * len(texts)


class Neither:
    pass


def declared(name: str, candidates: int = 50, **config: Any) -> RerankDeclaration:
    return RerankDeclaration.model_validate(
        {"class": f"{__name__}:{name}", "config": config, "candidates": candidates}
    )


async def judged(**config: Any) -> list[float | None]:
    """Return the scores of four texts, which the compressor returns from last to first."""
    reranker = make_reranker(declared("Compressor", **config), Environment(Path(), {}))
    return await rerank_texts(reranker, "question", ["a", "b", "c", "d"])


async def filled(bench: Bench, reranker: Any = None) -> Bench:
    for word in WORDS:
        bench.write(f"{word}.md", paragraph(word))
    bench.change(dedupe=False, reranker=lambda declaration: reranker or Ours())
    await bench.ingest()
    return bench


# LangChain's.


async def test_figures_as_they_are() -> None:
    """Scores from 0 to 1 are used unchanged, in any order."""
    assert await judged(figures=[0.1, 1, 0.0, 0.5]) == [0.5, 0.0, 1.0, 0.1]


async def test_figures_of_any_size() -> None:
    """If a score is outside 0 to 1, all pass the logistic function, which keeps the order."""
    expected = [1 / (1 + math.exp(-figure)) for figure in (0.5, -3.0, 8.0, 0.0)]
    assert await judged(figures=[0.0, 8.0, -3.0, 0.5]) == pytest.approx(expected)
    extreme = await judged(figures=[-1e6, 1e6, 0.0, 1e300])
    assert extreme == pytest.approx([1.0, 0.5, 1.0, 0.0])


@pytest.mark.parametrize("figures", [[], [0.9, 0.8]])
async def test_only_an_order(figures: list[float]) -> None:
    """If scores are missing, positions become scores that fall evenly from 1."""
    assert await judged(figures=figures) == [0.25, 0.5, 0.75, 1.0]


async def test_documents_that_are_dropped() -> None:
    """Documents that the compressor does not return are dropped."""
    assert await judged(keep=2, figures=[0.7, 0.4]) == [None, None, 0.4, 0.7]
    assert await judged(keep=2) == [None, None, 0.5, 1.0]
    assert await judged(keep=0) == [None] * 4


async def test_documents_of_its_own() -> None:
    """A class that returns new documents is refused as a reranker, by name."""
    with pytest.raises(RerankerError, match="Compressor returns new documents"):
        await judged(summary=True)


@pytest.mark.parametrize("figure", ["nan", "good", [1]])
async def test_figures_that_are_none(figure: Any) -> None:
    """A score that is not a number raises a RerankerError."""
    with pytest.raises(RerankerError):
        await judged(figures=[figure, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("kind", ["Compressor", "Blocking"])
async def test_an_outage_without_its_key(tmp_path: Path, kind: str) -> None:
    """The error contains the provider's message without the key that it quotes."""
    environment = Environment(tmp_path, {"KEY": SECRET})
    config: dict[str, Any] = {"key": "{{ .env.KEY }}"}
    if kind == "Compressor":
        config["fails"] = True
    reranker = make_reranker(declared(kind, **config), environment)
    with pytest.raises(RerankerError, match="ConnectionError: 401") as raised:
        await rerank_texts(reranker, "question", ["a"])
    assert SECRET not in str(raised.value)


def test_a_configuration_that_is_refused(tmp_path: Path) -> None:
    """The message names the class and hides values from the environment."""
    environment = Environment(tmp_path, {"KEY": SECRET})
    with pytest.raises(RerankerError, match=r"Refusing cannot be created.*no such key") as raised:
        make_reranker(declared("Refusing", key="{{ .env.KEY }}"), environment)
    assert SECRET not in str(raised.value)
    with pytest.raises(RerankerError, match="Compressor cannot be created"):
        make_reranker(declared("Compressor", keep="many"), environment)


# Custom rerankers.


def test_what_can_be_a_reranker(tmp_path: Path) -> None:
    """A compressor, or a class with the method, is accepted; other classes are refused by name."""
    environment = Environment(tmp_path, {})
    assert isinstance(make_reranker(declared("Ours"), environment), Reranker)
    assert isinstance(make_reranker(declared("Compressor"), environment), Reranker)
    with pytest.raises(RerankerError, match="Neither is the class Neither; expected"):
        make_reranker(declared("Neither"), environment)


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ([0.5], "1 scores for 2 texts"),
        ([0.5, 1.5], "score 1.5; expected 0 to 1"),
        ([float("nan"), 0.5], "score nan"),
        ([0.5, "good"], "ValueError"),
        (7, "TypeError"),
    ],
)
async def test_answers_that_cannot_be(figures: Any, message: str) -> None:
    """A wrong number of scores, or a score outside 0 to 1, raises a RerankerError."""
    with pytest.raises(RerankerError, match=message):
        await rerank_texts(Ours(figures), "question", ["a", "b"])


async def test_figures_of_numpy() -> None:
    """Scores are returned as plain floats, whatever type the model returns."""
    figures = await rerank_texts(Ours(np.array([0.5, 1], np.float32)), "question", ["a", "b"])
    assert [(type(figure), figure) for figure in figures] == [(float, 0.5), (float, 1.0)]


async def test_the_order_is_the_rerankers(bench: Bench) -> None:
    """The reranker's score is the score, ties go by id, and passages without one are dropped."""
    ours = Ours()
    await filled(bench, ours)
    result = await bench.ask("alpha", strategy="rerank", top_k=6, rerank={"class": "a.b:C"})
    assert result.strategy == "rerank"
    assert result.matches[0].text == paragraph("zeta")
    assert [match.score for match in result] == [1.0, 0.25, 0.25, 0.25, 0.25]
    assert [m.id for m in result.matches[1:]] == sorted(m.id for m in result.matches[1:])
    assert all(match.scores["rerank"] == match.score for match in result)
    assert all({"dense", "lexical", "fused"} < set(match.scores) for match in result)
    ((question, texts),) = ours.heard
    assert question == "alpha"
    assert texts[0] == paragraph("alpha")
    assert len(texts) == 6


async def test_candidates(bench: Bench) -> None:
    """The reranker gets the best fused passages, as many as declared, for any limit."""
    ours = Ours()
    await filled(bench, ours)
    best = [match.text for match in await bench.ask("alpha", strategy="hybrid", top_k=3)]
    rerank = {"class": "a.b:C", "candidates": 3}
    for top_k in (1, 2, 5):
        ours.heard.clear()
        await bench.ask("alpha", strategy="rerank", top_k=top_k, rerank=rerank)
        assert ours.heard == [("alpha", best)] or ours.heard == [("alpha", best)] * 2


async def test_nothing_to_rerank(bench: Bench) -> None:
    """Without candidates the reranker is not called."""
    ours = Ours()
    await filled(bench, ours)
    result = await bench.ask(
        "alpha", strategy="rerank", rerank={"class": "a.b:C"}, filters={"uri": "none"}
    )
    assert (result.matches, ours.heard) == ([], [])


async def test_no_reranker(bench: Bench) -> None:
    """The strategy without a declared reranker is a UsageError that says what to write."""
    await filled(bench)
    with pytest.raises(UsageError, match=r"'docs'.*needs a reranker; write: rerank"):
        await bench.ask("alpha", strategy="rerank")
    bench.change(reranker=None)
    with pytest.raises(UsageError, match="without rerankers"):
        await bench.ask("alpha", strategy="rerank", rerank={"class": "a.b:C"})


async def test_an_outage_is_an_error(bench: Bench) -> None:
    """If the reranker fails, the search fails: the result is never empty or in another order."""

    class Broken(Ours):
        async def rerank(self, question: str, texts: Sequence[str]) -> Any:
            raise TimeoutError("too slow")

    await filled(bench, Broken())
    bench.diary.entries.clear()
    with pytest.raises(RerankerError, match="TimeoutError: too slow"):
        await bench.ask("alpha", strategy="rerank", rerank={"class": "a.b:C"})
    assert bench.diary.names() == ["retrieval_started", "retrieval_failed"]
