"""Checks knowledge bases on existing stores: another program fills them, Lorebind searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.checks.references import named, problem_at
from lorebind_config.declarations import defaults
from lorebind_config.declarations.base import within
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.tools import KnowledgeTool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_config.declarations.agents import AgentDeclaration
    from lorebind_config.declarations.base import Declaration
    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_config.declarations.project import ProjectDeclaration
    from lorebind_config.declarations.workflows import WorkflowDeclaration
    from lorebind_config.errors import Problem

_INGESTED = ("sources", "chunking", "preprocess", "metadata", "ingest")
"""The settings of a knowledge base that concern its ingestion."""
NEEDS_WORDS = ("hybrid", "lexical")
"""The strategies that need a word index."""


def existing(
    project: ProjectDeclaration,
    agents: Sequence[AgentDeclaration],
    workflows: Sequence[WorkflowDeclaration],
) -> Iterator[Problem]:
    """Find settings that would be ignored, and searches that are impossible."""
    vector_dbs = defaults.vector_dbs(project)
    filled_by_others: set[str] = set()
    alone = project.model_copy(update={"agents": [], "workflows": []})
    for top in (alone, *agents, *workflows):  # the project first: all others see what it declares
        own = [kb for kb in getattr(top, "knowledge_bases", []) if isinstance(kb.id, str)]
        seen = filled_by_others - {kb.id for kb in own}
        for kb in own:
            vector_db = defaults.meant(vector_dbs, kb.vector_db)
            if getattr(vector_db, "is_existing", None) is True:
                seen.add(kb.id)
                yield from _ingested(kb, vector_db.id)
                yield from _searches(kb.retrieval, kb.id)
        if top is alone:
            filled_by_others = seen
        for inner, _ in within(top):
            if isinstance(inner, BindingDeclaration | KnowledgeTool) and inner.id in seen:
                yield from _searches(inner, inner.id)


def _ingested(kb: KnowledgeBaseDeclaration, vector_db: str) -> Iterator[Problem]:
    """Find ingestion settings, which have no effect without an ingestion."""
    for name in _INGESTED:
        if name in kb.model_fields_set:
            owner = named(kb, kb.id)
            message = f"{owner} is filled by others, so {name} has no effect"
            yield problem_at(
                kb, (name,), message, f"remove it, or set existing: false for {vector_db!r}"
            )


def _searches(declared: Declaration, kb_id: str) -> Iterator[Problem]:
    """Find search settings that need an index built by Lorebind."""
    owner = f"knowledge base {kb_id!r} is filled by others"
    for settings, _ in within(declared):
        strategy = getattr(settings, "strategy", None)
        if "strategy" in settings.model_fields_set and strategy in NEEDS_WORDS:
            message = f"{owner} and has no word index for {strategy!r}"
            yield problem_at(settings, ("strategy",), message, "write similarity, mmr or rerank")
        if getattr(settings, "neighbours", None):
            message = f"{owner}, so the order of its passages is unknown"
            yield problem_at(settings, ("neighbours",), message, "remove it")
