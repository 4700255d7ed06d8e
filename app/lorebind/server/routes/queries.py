"""`…/query`, `/query` and `…/stats`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import AfterValidator, Field

from lorebind.plain_data import as_data
from lorebind.server.answers import Found
from lorebind.server.bodies import Body, Whole
from lorebind.server.etags import conditional, json_response
from lorebind.server.server import SeenKnowledgeBase, SeenProject
from lorebind_bindings import bind, override
from lorebind_config.declarations.retrieval import Filters, Strategy
from lorebind_knowledge.documents.listing import KnowledgeStats
from lorebind_knowledge.records import MatchingTerms
from lorebind_knowledge.retrieval.base import check_question

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

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "top_k": self.top_k,
            "min_score": self.min_score,
            "strategy": self.strategy,
            "filters": self.filters,
        }


class Query(Settings):
    """A question, and settings that override those of the knowledge base."""

    query: Question
    workflow: str | None = Field(
        None, description="The workflow that declares the knowledge base, if a workflow does."
    )
    explain: bool = Field(
        False,
        description="Add every setting in effect, as `binding`, and the matching `terms` of each "
        "passage.",
    )


class QueryOfSeveral(Query):
    """A question to several knowledge bases, answered in one ranking."""

    knowledge_bases: list[str] = Field(
        min_length=1,
        max_length=100,
        description="The ids of the knowledge bases. The settings of the first apply.",
    )


@router.post("/knowledge-bases/{kb_id}/query", response_model=Found)
async def query(project: SeenProject, kb_id: str, body: Query) -> Any:
    """Return the best passages of a knowledge base for a question, best first."""
    kb = project.knowledge_base(kb_id, workflow=body.workflow)
    if not body.explain:
        return json_response(as_data(await kb.aquery(body.query, **body.settings)))
    result, binding, terms = await kb.aquery_explained(body.query, **body.settings)
    return json_response(as_data(result) | as_data({"binding": binding, "terms": terms}))


@router.post("/query", response_model=Found)
async def query_several(project: SeenProject, body: QueryOfSeveral) -> Any:
    """Return the best passages of several knowledge bases for a question, best first."""
    kb_ids = body.knowledge_bases
    settings = {name: value for name, value in body.settings.items() if value is not None}
    result = await project.aquery_many(kb_ids, body.query, workflow=body.workflow, **settings)
    if not body.explain:
        return json_response(as_data(result))
    binding = override(bind(project.config, kb_ids[0], body.workflow), **settings)
    terms: MatchingTerms = {}
    for kb_id in kb_ids:
        handle = project.knowledge.open(kb_id, body.workflow)
        terms |= await handle.matching_terms(body.query, result)
    return json_response(as_data(result) | as_data({"binding": binding, "terms": terms}))


@router.get("/knowledge-bases/{kb_id}/stats", response_model=KnowledgeStats)
async def stats(request: Request, kb: SeenKnowledgeBase) -> Any:
    """Count the documents and chunks in the index, by state and language."""
    return conditional(request, as_data(await kb.astats()))
