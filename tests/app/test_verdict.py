"""One figure decides: a question has the same verdict for every `top_k`, and on every face."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_prompts.extractive import WEAK_INTRODUCTION
from lorebind_prompts.rendering.base import WEAK
from tests.bindings.helpers import write

PAGES = {
    "returns": "Items may be sent back within thirty days. The amount is refunded to your card.",
    "shipping": "Standard delivery takes three to five days, and express delivery one day.",
    "opening": "The shop is open from nine to six, and closed on Sundays and on public holidays.",
    "keys": "Signing keys are rotated every ninety days. The old key stays valid for one day.",
    "backups": "Every night the key store is copied to another region. Copies are kept a year.",
    "lunch": "Lunch is served from noon to two. Tell the kitchen about allergies one day ahead.",
    "parking": "Visitors park behind the building. Bicycles stand in the cellar.",
    "leave": "Staff have twenty-eight days of leave a year. Ask your manager a week ahead.",
    "expenses": "Send receipts to accounting within a month. Travel by train is second class.",
    "dogs": "Dogs are welcome on Fridays. They stay on a leash in the kitchen and in the lobby.",
}
QUESTIONS = (
    *("When will I have my cash again?", "Can I bring the stuff back?", "Who keeps the copies?"),
    *("How many days off do I get?", "When does my parcel show up?", "Where do I leave my bike?"),
    *("How often are keys rotated?", "Which day of the week may I take my dog to the office?"),
    *("Is there food for people with allergies?", "What is open on Sundays?", "A day in a year"),
    *("How long is the old key valid?", "Who pays for the train?", "Which key is this song in?"),
    *("What is the capital of France?", "How do I bake bread?", "Who won the match last night?"),
)
KS = (1, 3, 8)
WORKFLOW = {
    "id": "reply",
    "input": {"question": {"type": "string"}},
    "tasks": [{"id": "answer", "prompt": "{{ .workflow.input.question }}"}],
}


def built(root: Path, kb: Mapping[str, Any], embedder: Mapping[str, Any] | None = None) -> Project:
    write(root, {f"{name}.md": f"# {name}\n\n{text}\n" for name, text in PAGES.items()})
    bases = [{"id": "help", "sources": [{"type": "markdown_glob", "path": "*.md"}], **kb}]
    declared = {"name": "shop", "knowledge_bases": bases, "knowledge": [{"id": "help"}]}
    if embedder:
        declared["embedders"] = [{"id": "words", **embedder}]
    project = Project.build({**declared, "workflows": [WORKFLOW]}, root=root)
    project.ingest("help")
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with built(tmp_path_factory.mktemp("shop"), {}) as project:
        yield project


@pytest.mark.parametrize("strategy", ["hybrid", "similarity", "lexical", "mmr"])
def test_the_verdict_does_not_depend_on_the_number_of_passages(
    project: Project, strategy: str
) -> None:
    """The best candidate decides, also if `top_k` or diversity leave it out."""
    for question in QUESTIONS:
        results = [project.query("help", question, top_k=k, strategy=strategy) for k in KS]
        assert len({(result.verdict, result.shortfall) for result in results}) == 1, question
        spread = project.query_many(["help"], question, strategy=strategy, max_per_document=1)
        assert spread.verdict == results[0].verdict
        if strategy != "lexical":  # its candidates are the passages with words of the question
            nearest = project.query("help", question, top_k=1, strategy="similarity").matches[0]
            assert (results[0].verdict == "hit") is (nearest.relevance >= 0.35)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_face_has_the_same_verdict(project: Project, question: str) -> None:
    """Search, retriever, prompt, tool, answers and workflows agree, and their texts with them."""
    verdict = project.query("help", question).verdict
    earlier = [("user", "How often are keys rotated?"), ("assistant", "Every ninety days. [1]")]
    for k in (1, 8):
        documents = project.retriever(top_k=k).invoke(question)
        assert {document.metadata["verdict"] for document in documents} == {verdict}
        tool = project.tool("help", top_k=k)
        call = {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": question}}
        message = tool.invoke(call)
        assert message.artifact["verdict"] == verdict
        texts = [str(message.text), project.prompt(top_k=k).invoke(question).to_string()]
        assert [WEAK in text for text in texts] == [verdict == "weak"] * 2
        for answer in (
            project.generate(question, top_k=k),
            project.ask(question, top_k=k),
            project.generate(question, top_k=k, history=earlier),
            project.generate(question, top_k=k, history=earlier, condense="none"),
        ):
            assert answer.text.startswith(WEAK_INTRODUCTION) is (answer.verdict == "weak")
            assert answer.results[0].result.verdict == answer.verdict
        assert answer.verdict == verdict
    result = project.run("reply", {"question": question})
    assert result.tasks["answer"].verdict == verdict
    assert str(result.output).startswith(WEAK_INTRODUCTION) is (verdict == "weak")


@pytest.mark.parametrize("strategy", ["hybrid", "similarity", "lexical", "mmr"])
def test_min_score_goes_by_the_relevance_that_is_shown(project: Project, strategy: str) -> None:
    """Exactly the passages whose `relevance` reaches `min_score` are returned."""
    for question in QUESTIONS:
        every = project.query("help", question, top_k=50, strategy=strategy).matches
        for low in (0.2, 0.35):
            settings: dict[str, Any] = {"top_k": 50, "strategy": strategy, "min_score": low}
            hits = project.query("help", question, **settings)
            assert {hit.id for hit in hits} == {hit.id for hit in every if hit.relevance >= low}
            assert (hits.verdict == "miss") is (not hits.matches)
            documents = project.retriever(**settings).invoke(question)
            assert {document.id: document.metadata["relevance"] for document in documents} == {
                hit.id: hit.relevance for hit in hits
            }


def test_fewer_passages_than_count_as_found(project: Project) -> None:
    """`min_results` is about what the search can find, not about what `top_k` leaves of it."""
    result = project.query_many(["help"], QUESTIONS[6], top_k=1, min_results=3)
    assert (len(result), result.verdict) == (1, "hit")


@pytest.mark.parametrize(
    ("embedder", "kb", "level"),
    [
        ({}, {}, 0.1),
        ({"weak_below": 0.9}, {}, 0.9),
        ({"weak_below": None}, {}, None),
        ({"weak_below": 0.9}, {"weak_below": 0}, 0),
        ({}, {"weak_below": 0.9}, 0.9),
        ({"weak_below": 0.9}, {"weak_below": None}, None),
    ],
)
def test_the_level_can_be_set(
    tmp_path: Path, embedder: dict[str, Any], kb: dict[str, Any], level: float | None
) -> None:
    """`weak_below` of the knowledge base precedes that of its embedder; null means never weak."""
    with built(tmp_path, kb, {"provider": "hashing", **embedder}) as project:
        (binding,) = project.explain()
        assert binding.weak_below == level
        for question in ("How often are keys rotated?", "zygotes"):
            best = project.query("help", question, top_k=50, strategy="similarity").matches[0]
            result = project.query("help", question)
            weak = level is not None and best.relevance < level
            assert (result.verdict == "weak") is weak
            assert bool(result.shortfall) is weak


class Reversed:
    """A reranker that prefers the last candidates, and is never sure."""

    def rerank(self, question: str, texts: list[str]) -> list[float]:
        return [number / 100 for number in range(len(texts))]


@pytest.mark.parametrize(("level", "verdict"), [(0.05, "hit"), (0.5, "weak")])
def test_a_reranker_decides(tmp_path: Path, level: float, verdict: str) -> None:
    """After a reranker its score is the relevance, unless `min_score_on` names another score."""
    rerank = {"class": f"{__name__}:Reversed"}
    retrieval = {"strategy": "rerank", "rerank": rerank}
    with built(tmp_path, {"weak_below": level, "retrieval": retrieval}) as project:
        for k in KS:
            result = project.query("help", QUESTIONS[6], top_k=k)
            assert result.verdict == verdict
            assert [hit.relevance for hit in result] == [hit.scores["rerank"] for hit in result]
        dense = project.query_many(["help"], QUESTIONS[6], min_score_on="dense")
        assert [hit.relevance for hit in dense] == pytest.approx(
            [max(hit.scores["dense"], 0) for hit in dense], abs=1e-6
        )


@pytest.mark.parametrize(
    ("kb", "reranker", "low", "verdict"),
    [
        ({}, {}, None, "hit"),
        ({}, {"weak_below": 0.5}, 0.5, "weak"),
        ({}, {"weak_below": 0.05}, 0.05, "hit"),
        ({"weak_below": 0.5}, {}, 0.5, "weak"),
        ({"weak_below": 0.05}, {"weak_below": 0.5}, 0.5, "weak"),
        ({"weak_below": 0.5}, {"weak_below": None}, None, "hit"),
    ],
)
def test_a_reranker_has_a_level_of_its_own(
    tmp_path: Path, kb: dict[str, Any], reranker: dict[str, Any], low: float | None, verdict: str
) -> None:
    """The embedder's `weak_below` is about cosines, so it does not judge a reranker's scores."""
    rerank = {"class": f"{__name__}:Reversed", **reranker}
    retrieval = {"strategy": "rerank", "rerank": rerank}
    with built(tmp_path, {**kb, "retrieval": retrieval}) as project:
        assert [binding.weak_below for binding in project.explain()] == [low]
        assert project.query("help", QUESTIONS[6]).verdict == verdict
        assert project.generate(QUESTIONS[6]).verdict == verdict
        if not kb:
            by_cosine = project.query("help", "What is the capital of France?", strategy="hybrid")
            assert by_cosine.verdict == "weak"
            by_cosine = project.query("help", QUESTIONS[14], min_score_on="dense")
            assert by_cosine.verdict == "weak"


@pytest.mark.parametrize(("kb", "verdict"), [({}, "hit"), ({"weak_below": 0.95}, "weak")])
def test_the_level_of_an_embedder_is_about_cosines_only(
    tmp_path: Path, kb: dict[str, Any], verdict: str
) -> None:
    """With `min_score_on: lexical`, BM25 is not compared with a level for cosines."""
    with built(tmp_path, kb, {"provider": "hashing", "weak_below": 0.99}) as project:
        result = project.query("help", "zygotes of bread", min_score_on="fused")
        assert (result.verdict, result.matches[0].relevance < 0.99) == (verdict, True)


def test_the_order_of_knowledge_bases_does_not_matter(tmp_path: Path) -> None:
    """Several knowledge bases are weak together only if they are below the level of each."""
    source = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": PAGES["keys"]}]}]}
    levels = {"low": 0.05, "high": 0.95, "never": None}
    bases = [{"id": name, "weak_below": level, **source} for name, level in levels.items()]
    with Project.build({"name": "shop", "knowledge_bases": bases}, root=tmp_path) as project:
        for name in levels:
            project.ingest(name)
        assert project.query("high", QUESTIONS[6]).verdict == "weak"
        for other in ("low", "never"):
            for names in (["high", other], [other, "high"]):
                assert project.query_many(names, QUESTIONS[6]).verdict == "hit"
