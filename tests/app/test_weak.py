"""Questions in words that the documents do not contain: the passages found are given anyway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage

from lorebind import Project
from lorebind_config.declarations.retrieval import NOTHING_FOUND
from lorebind_prompts import parse
from lorebind_prompts.rendering.base import WEAK
from tests.bindings.helpers import Agentic, Scripted, write

from .forked_python import ForkedPython
from .helpers import run_forked

RETURNS = (
    "Items may be sent back within thirty days of purchase. The amount paid is refunded to the "
    "original payment method five business days after we have received them."
)
SHIPPING = (
    "Standard delivery takes three to five business days, and express delivery one. Orders above "
    "fifty euros are delivered free of charge."
)
DOCUMENTS = {
    "returns.md": f"# Returns\n\n{RETURNS}\n",
    "shipping.md": f"# Shipping\n\n{SHIPPING}\n",
}
ASKED = {
    "When will I have my cash again?": "returns.md",
    "I don't like it, what now?": "returns.md",
    "Can I bring the stuff back?": "returns.md",
    "it broke, do i get anything back": "returns.md",
    "How long until my dough is on my card?": "returns.md",
    "When does my parcel show up?": "shipping.md",
    "Do I pay extra to have it brought to me?": "shipping.md",
    "How fast can you get it here?": "shipping.md",
    "What's the quickest way to have it at home?": "shipping.md",
    "is the mailman slow": "shipping.md",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    root = write(tmp_path_factory.mktemp("shop"), DOCUMENTS)
    declared = {
        "name": "shop",
        "knowledge_bases": [{"id": "help", "sources": [{"type": "markdown_glob", "path": "*.md"}]}],
        "knowledge": [{"id": "help"}],
    }
    with Project.build(declared, root=root) as built:
        built.ingest("help")
        yield built


def uris(text: object) -> list[str]:
    return [passage.source.split(",")[0] for passage in parse(str(text))]


@pytest.mark.parametrize("question", ASKED)
def test_every_face_gives_what_was_found(project: Project, question: str) -> None:
    """Whatever the verdict, the passages are in the prompt, and weak ones are marked as weak."""
    verdict = project.query("help", question).verdict
    assert verdict in ("hit", "weak")
    model = Scripted()
    answer = project.generate(question, model=model)
    tool = project.tool("help").invoke({"query": question})
    agentic = Agentic(says=[AIMessage("ok")])
    agent = create_agent(agentic, [], middleware=[project.middleware()])
    *_, last = agent.invoke({"messages": [("user", question)]})["messages"]
    texts = [
        str(model.heard[0][-1].text),
        str(project.prompt().invoke(question).to_messages()[-1].text),
        str(tool),
        str(agentic.heard[0][0].text),
    ]
    for text in texts:
        assert sorted(uris(text)) == sorted(DOCUMENTS)
        assert (WEAK in text) is (verdict == "weak")
    documents = project.retriever().invoke(question)
    assert {document.metadata["uri"] for document in documents} == set(DOCUMENTS)
    assert {document.metadata["verdict"] for document in documents} == {verdict}
    assert (answer.verdict, last.response_metadata["lorebind"]["verdict"]) == (verdict, verdict)


def test_the_right_document_is_first(project: Project) -> None:
    """The nearest passage is the right one for most of the questions, weak or not."""
    results = {question: project.query("help", question) for question in ASKED}
    right = [results[question].matches[0].metadata["uri"] == uri for question, uri in ASKED.items()]
    assert sum(right) >= 8
    assert sum(result.verdict == "weak" for result in results.values()) >= 5


def test_the_extractive_model_quotes(tmp_path: Path, forked: ForkedPython) -> None:
    """Without a model, `ask` quotes the nearest passage, and says so if it matches weakly."""
    write(tmp_path, DOCUMENTS)
    for question, code in (("Can I bring the stuff back?", 1), ("Will I have my cash again?", 0)):
        done = run_forked(forked, tmp_path, "ask", ".", question)
        assert ("match this question only weakly" in done.out) is (code == 1)
        assert "> Items may be sent back within thirty days of purchase." in done.out
        assert (done.code, done.err) == (code, "")


def test_a_threshold_withholds(project: Project) -> None:
    """`min_score` and `on_weak` withhold passages everywhere; the model is notified."""
    question = "Can I bring the stuff back?"
    for settings in ({"min_score": 0.9}, {"on_weak": "fallback"}):
        model = Scripted()
        answer = project.generate(question, model=model, **settings)
        assert (answer.verdict, answer.offered) == ("fallback", [])
        assert str(model.heard[0][-1].text) == f"{NOTHING_FOUND}\n\n{question}"
