"""Code that users may write, and code that type checkers refuse: this file is only type-checked.

An expected error is marked. mypy and pyright report unused marks, so each of these lines proves
that both of them find its mistake.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import assert_type

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from lorebind import GenerateSettings, KnowledgeBase, Project, RetrievalSettings, RetrieverSettings
from lorebind_bindings import (
    Answer,
    AnswerStream,
    KnowledgeMiddleware,
    KnowledgePrompt,
    LorebindRetriever,
    Provenance,
)
from lorebind_config.declarations.retrieval import FusionDeclaration, StageDeclaration
from lorebind_knowledge.documents.listing import DocumentInfo
from lorebind_knowledge.ingest.report import IngestReport
from lorebind_knowledge.records import QueryResult


def faces(project: Project, model: BaseChatModel) -> None:
    """Use the arguments and results of each method."""
    assert_type(project.retriever("docs", top_k=2, k=1, tags=["mine"]), LorebindRetriever)
    assert_type(
        project.prompt("docs", template="{{ .question }}", max_tokens=500, model=model),
        KnowledgePrompt,
    )
    assert_type(project.tool("docs", name="handbook", strategy="mmr"), BaseTool)
    assert_type(project.tools("docs", top_k=3), list[BaseTool])
    assert_type(project.middleware(agent="clerk", on_weak="fallback"), KnowledgeMiddleware)
    assert_type(project.generate("Who?", "docs", history=[("user", "Hi")], top_k=1), Answer)
    assert_type(project.stream("Who?", attachments=[], model="openai:gpt"), AnswerStream)
    assert_type(project.query("docs", "Who?", neighbours=1, fusion={"depth": 50}), QueryResult)
    assert_type(project.query_many(["docs"], "Who?", min_results=2), QueryResult)
    assert_type(project.at(agent="clerk").query("Who?", top_k=2), QueryResult)

    chain = project.prompt("docs") | model | project.citations()
    assert_type(chain.invoke("Who?"), Answer)
    assert_type(project.citations().invoke({"messages": []}), Answer)
    assert_type(project.model("default"), BaseChatModel)
    assert_type(project.explain(agent="clerk").unbound_by, Provenance | None)

    project.retriever(topk=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    project.prompt("docs", k=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    project.tool("docs", model=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    project.middleware(history=[])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    project.generate("Who?", topk=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    project.generate("Who?", top_k="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    project.stream("Who?", k=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    project.query("docs", "Who?", topk=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    project.query("docs", "Who?", strategy="bm25")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    project.query_many(["docs"], "Who?", topk=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def one_knowledge_base(project: Project, model: BaseChatModel) -> None:
    """Use the operations on one knowledge base."""
    docs = project.knowledge_base("docs", workflow="triage")
    assert_type(docs, KnowledgeBase)
    assert_type(docs.query("Who?", neighbours=1), QueryResult)
    assert_type(docs.ingest(strategy="replace", plan=docs.plan()), IngestReport)
    assert_type(docs.documents(limit=2)[0], DocumentInfo)
    assert_type(docs.retriever(k=2), LorebindRetriever)
    assert_type(docs.generate("Who?", model=model), Answer)
    assert_type(project.ingest("docs", inputs={"day": 1}, wait=True), IngestReport)

    docs.query("Who?", topk=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    docs.ingest(strategie="replace")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    project.ingest("docs", strategie="replace")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    project.ingest("docs", wait="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def at_a_place(project: Project, model: BaseChatModel) -> None:
    """Use the same methods without the location."""
    place = project.at(agent="clerk")
    assert_type(place.retriever(top_k=2, k=1), LorebindRetriever)
    assert_type(place.prompt(instructions="Be kind.", top_k=2), KnowledgePrompt)
    assert_type(place.tool(description="The handbook.", model=model), BaseTool)
    assert_type(place.middleware(max_tokens=500), KnowledgeMiddleware)
    assert_type(place.generate("Who?", query="owners", fallback=""), Answer)
    assert_type(place.astream("Who?", retrieved_contexts=[Document("Me.")]), AnswerStream)

    place.retriever(topk=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    place.prompt("docs")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    place.tool(strategy="bm25")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    place.middleware(template="")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    place.generate("Who?", agent="clerk")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    place.stream("Who?", topk=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def awaited(project: Project) -> None:
    """Use the async versions with the same arguments."""
    assert_type(await project.agenerate("Who?", top_k=1), Answer)
    assert_type(await project.knowledge_base("docs").aquery("Who?"), QueryResult)
    assert_type(await project.aquery("docs", "Who?", max_per_document=2), QueryResult)
    assert_type(await project.aquery_many(["docs"], "Who?", render="json"), QueryResult)
    assert_type(await project.at("docs").agenerate("Who?", top_k=1), Answer)
    assert_type(project.for_tenant("acme"), Project)

    await project.agenerate("Who?", topk=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await project.aquery_many(["docs"], "Who?", k=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def kept_for_later(
    project: Project, fusion: FusionDeclaration, stages: list[StageDeclaration]
) -> None:
    """Use the types of settings, whose values may be mappings or declarations."""
    retrieval: RetrievalSettings = {
        "strategy": "hybrid",
        "filters": MappingProxyType({"team": "ops"}),
        "fusion": {"method": "rrf"},
        "rerank": {"provider": "onnx"},
        "stages": [{"strategy": "lexical"}],
    }
    project.tool("docs", **retrieval)
    declared: RetrieverSettings = {"fusion": fusion, "stages": stages, "k": 3}
    project.retriever("docs", **declared)
    request: GenerateSettings = {"query": "owners", "top_k": None}
    project.generate("Who?", **request)

    wrong: RetrievalSettings = {"topk": 1}  # type: ignore[typeddict-unknown-key]  # pyright: ignore[reportAssignmentType]
    project.tool("docs", **wrong)
