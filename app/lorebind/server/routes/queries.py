"""`…/query`, `…/why`, `/query` and `…/stats`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import AfterValidator, Field

from lorebind.plain_data import as_data
from lorebind.server.answers import Found
from lorebind.server.bodies import Body, Whole
from lorebind.server.etags import conditional, json_response
from lorebind.server.routes.reading import storable_name
from lorebind.server.server import SeenKnowledgeBase, SeenProject
from lorebind_config.declarations.newest import RecencyDeclaration, VersionsDeclaration
from lorebind_config.declarations.retrieval import Filters, Strategy
from lorebind_knowledge.documents.listing import KnowledgeStats
from lorebind_knowledge.records import QueryResult, SearchPath
from lorebind_knowledge.retrieval.base import check_question
from lorebind_knowledge.retrieval.explaining import highlights

router = APIRouter(tags=["search"])


def _not_blank(question: str) -> str:
    check_question(question)
    return question


Question = Annotated[
    str,
    Field(min_length=1, max_length=20_000, description="Any text that is not blank."),
    AfterValidator(_not_blank),
]


class Settings(Body):
    """Settings of a search that a request can override."""

    top_k: Annotated[int, Field(ge=1, le=50), Whole] | None = Field(
        None, description="The maximum number of passages."
    )
    min_score: float | None = Field(
        None, ge=0, le=1, description="Omit passages with a lower relevance."
    )
    strategy: Strategy | None = Field(None, description="The retrieval strategy.")
    filters: Filters | None = Field(None, description="Conditions on the metadata.")
    recency: RecencyDeclaration | None = Field(
        None, description="How much newer documents come before older ones."
    )
    versions: VersionsDeclaration | None = Field(
        None, description="Which documents are versions of the same document."
    )

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "top_k": self.top_k,
            "min_score": self.min_score,
            "strategy": self.strategy,
            "filters": self.filters,
            "recency": self.recency,
            "versions": self.versions,
        }


class Query(Settings):
    """A question, and settings that override those of the knowledge base."""

    query: Question
    workflow: str | None = Field(
        None, description="The workflow that declares the knowledge base, if a workflow does."
    )
    explain: bool = Field(
        False,
        description="Add every setting in effect, as `binding`, and for each passage the matching "
        "`terms`, and as `highlights` where its text has words of the question: pairs of offsets.",
    )


class WhyQuery(Settings):
    """A question, and a document that should answer it."""

    query: Question
    document: str = Field(description="The id or the uri of the document.")
    workflow: str | None = Field(
        None, description="The workflow that declares the knowledge base, if a workflow does."
    )


class QueryOfSeveral(Query):
    """A question to several knowledge bases, answered in one ranking."""

    knowledge_bases: list[str] = Field(
        [],
        max_length=100,
        description="The ids of the knowledge bases. The settings of the first, except its filter, "
        "apply to all with its embedder. By default those that are bound at the place; without a "
        "place those that the project binds, or else all, each with its own settings.",
    )
    workflow: str | None = Field(
        None, description="The workflow in which ids are looked up, or whose bindings are searched."
    )
    task: str | None = Field(
        None, description="The task of the workflow whose bindings are searched."
    )
    agent: str | None = Field(None, description="The agent whose bindings are searched.")
    explain: bool = Field(
        False,
        description="Add every setting in effect, as `bindings` in the order of the knowledge "
        "bases (`binding` is the first), and for each passage the matching `terms` and "
        "`highlights`.",
    )


@router.post("/knowledge-bases/{kb_id}/query", response_model=Found)
async def query(project: SeenProject, kb_id: str, body: Query) -> Any:
    """Return the best passages of a knowledge base for a question, best first."""
    kb = project.knowledge_base(kb_id, workflow=body.workflow)
    if not body.explain:
        return json_response(as_data(await kb.aquery(body.query, **body.settings)))
    result, binding, terms = await kb.aquery_explained(body.query, **body.settings)
    return json_response(_explained(body.query, result, {"binding": binding, "terms": terms}))


@router.post("/query", response_model=Found)
async def query_several(project: SeenProject, body: QueryOfSeveral) -> Any:
    """Return the best passages of several knowledge bases for a question, best first."""
    place = project.at(
        *body.knowledge_bases, workflow=body.workflow, task=body.task, agent=body.agent
    )
    if not body.explain:
        return json_response(as_data(await place.aquery(body.query, **body.settings)))
    result, bindings, terms = await place.aexplain_query(body.query, **body.settings)
    explained = {"bindings": bindings, "binding": next(iter(bindings), None), "terms": terms}
    return json_response(_explained(body.query, result, explained))


@router.post("/knowledge-bases/{kb_id}/why", response_model=SearchPath)
async def why(project: SeenProject, kb_id: str, body: WhyQuery) -> Any:
    """Return how far a document comes in a search: its rank and score at each stage, and the stage
    that loses it."""
    kb = project.knowledge_base(kb_id, workflow=body.workflow)
    document = storable_name(kb, body.document)
    return json_response(as_data(await kb.awhy(body.query, document, **body.settings)))


def _explained(question: str, result: QueryResult, more: Mapping[str, Any]) -> dict[str, Any]:
    marked = {match.id: highlights(question, match.text) for match in result.matches}
    return {**as_data(result), **as_data({**more, "highlights": marked})}


@router.get("/knowledge-bases/{kb_id}/stats", response_model=KnowledgeStats)
async def stats(request: Request, kb: SeenKnowledgeBase) -> Any:
    """Count the documents and chunks in the index, by state and language."""
    return conditional(request, as_data(await kb.astats()))
