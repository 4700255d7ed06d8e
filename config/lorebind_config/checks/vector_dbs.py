"""Checks vector databases: shared catalogs, dimensions, and stores that others fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from lorebind_config.declarations.agents import AgentDeclaration, KnowledgeTool
from lorebind_config.declarations.base import Declaration, within
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.project import LOCAL, ProjectDeclaration, selected
from lorebind_config.declarations.retrieval import NEEDS_VECTORS, NEEDS_WORDS
from lorebind_config.declarations.vector_dbs import CatalogDeclaration
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.errors import Problem, did_you_mean
from lorebind_config.plugins import built_in, offers

_Check: TypeAlias = Callable[[Declaration, str], Iterator[Problem]]


def catalogs(project: ProjectDeclaration) -> Iterator[Problem]:
    """Find catalogs declared at the location of another one, as far as the files show it."""
    taken: dict[object, str] = {}
    for vector_db in project.vector_dbs:
        path = getattr(getattr(vector_db, "config", None), "path", None)
        if getattr(vector_db, "type", None) == "sqlite" and isinstance(path, str):
            taken[path, None] = vector_db.id
    for vector_db in project.vector_dbs:
        catalog = getattr(vector_db, "catalog", None)
        if not isinstance(catalog, CatalogDeclaration):
            continue
        # The default schema in PostgreSQL contains the database's id, so it cannot clash.
        named = isinstance(catalog.dsn, str) and isinstance(catalog.table_schema, str)
        place = (catalog.dsn, catalog.table_schema) if named else (catalog.path, None)
        if not isinstance(place[0], str):
            continue
        if place in taken:
            message = f"vector database {taken[place]!r} already keeps its catalog there"
            field = "schema" if named else "path"
            yield vector_db.problem(("catalog", field), message, "choose another location")
        taken.setdefault(place, vector_db.id)


def workers(project: ProjectDeclaration) -> Iterator[Problem]:
    """Find catalogs and a state that workers for the ingests of a server cannot reach."""
    server = project.server
    if server.ingests != "workers":
        return
    message = "ingests: workers needs PostgreSQL for {}"
    for vector_db in project.vector_dbs_or_default:
        if not (vector_db.is_existing or vector_db.is_shared):
            what = f"the catalog of vector database {vector_db.id!r}"
            hint = "declare its 'catalog' with a 'dsn', or use the type pgvector"
            yield server.problem(("ingests",), message.format(what), hint)
    if server.state is not None and server.state.dsn is None:
        hint = "declare a 'dsn' instead of the 'path', or remove it"
        yield server.problem(("ingests",), message.format("the server's 'state'"), hint)


def engines(project: ProjectDeclaration) -> Iterator[Problem]:
    """Find an engine that does not exist, or that cannot reach a catalog from other processes."""
    ingestion = project.ingestion
    engine = ingestion.engine
    if engine == LOCAL:
        return
    names = [LOCAL, *built_in("engines"), *offers("engines")]
    if engine not in names:
        message = f"engine {engine!r} is not supported"
        yield ingestion.problem(("engine",), message, did_you_mean(engine, names))
        return
    for vector_db in project.vector_dbs_or_default:
        if not (vector_db.is_existing or vector_db.is_shared):
            message = (
                f"engine {engine!r} needs catalogs in PostgreSQL, and the catalog of vector "
                f"database {vector_db.id!r} is in another place"
            )
            hint = "declare its 'catalog' with a 'dsn', or use the type pgvector"
            yield ingestion.problem(("engine",), message, hint)


def dimensions(
    project: ProjectDeclaration, workflows: Sequence[WorkflowDeclaration]
) -> Iterator[Problem]:
    """Find knowledge bases whose embedder and vector database disagree about the dimension.

    A dimension that the files do not state is measured, and compared, when an index is created.
    """
    vector_dbs = project.vector_dbs
    if not vector_dbs:  # the default database accepts any dimension
        return
    for kb in [*project.knowledge_bases, *(kb for w in workflows for kb in w.knowledge_bases)]:
        embedder = project.embedder_of(kb)
        vector_db = selected(vector_dbs, kb.vector_db)
        length = getattr(embedder, "known_dimension", None)
        declared = getattr(getattr(vector_db, "config", None), "dimension", None)
        if isinstance(length, int) and isinstance(declared, int) and length != declared:
            message = (
                f"{kb.title}: embedder {embedder.id!r} makes vectors of dimension "
                f"{length}, vector database {vector_db.id!r} is declared with {declared}"
            )
            where = vector_db.config.position("dimension")
            hint = (
                f"write dimension: {length} at {where}"
                if embedder.makes_vectors
                else f"remove the dimension at {where}, or name another vector database"
            )
            yield kb.problem(("vector_db",), message, hint)


_INGESTED = ("sources", "chunking", "preprocess", "metadata", "ingest", "sparse")
"""The settings of a knowledge base that concern its ingestion."""


def searches(
    project: ProjectDeclaration,
    agents: Sequence[AgentDeclaration],
    workflows: Sequence[WorkflowDeclaration],
) -> Iterator[Problem]:
    """Find settings that would be ignored, and searches that are impossible, of knowledge bases
    that others fill or that have no vectors."""
    limited: dict[str, _Check] = {}
    alone = project.model_copy(update={"agents": [], "workflows": []})
    for top in (alone, *agents, *workflows):  # the project first: all others see what it declares
        kbs = [kb for kb in getattr(top, "knowledge_bases", []) if isinstance(kb.id, str)]
        seen = {name: check for name, check in limited.items() if name not in {kb.id for kb in kbs}}
        for kb in kbs:
            vector_db = selected(project.vector_dbs_or_default, kb.vector_db)
            is_existing = getattr(vector_db, "is_existing", None) is True
            embedder = project.embedder_of(kb)
            if is_existing:
                seen[kb.id] = _searches_of_others
                yield from _ingested(kb, vector_db.id)
            if getattr(embedder, "makes_vectors", True) is False:
                if is_existing:
                    message = f"{kb.title} is filled by others and searched by vectors"
                    yield kb.problem(("embedder",), message, "name the embedder that filled it")
                else:
                    seen[kb.id] = _searches_without_vectors
            if kb.id in seen:
                yield from seen[kb.id](kb.retrieval, kb.id)
        if top is alone:
            limited = seen
        for inner, _ in within(top):
            if isinstance(inner, BindingDeclaration | KnowledgeTool) and inner.id in seen:
                yield from seen[inner.id](inner, inner.id)


def _ingested(kb: KnowledgeBaseDeclaration, vector_db: str) -> Iterator[Problem]:
    """Find ingestion settings, which have no effect without an ingestion."""
    for name in _INGESTED:
        if name in kb.model_fields_set:
            message = f"{kb.title} is filled by others, so {name} has no effect"
            hint = f"remove it, or set existing: false for {vector_db!r}"
            yield kb.problem((name,), message, hint)


def _searches_without_vectors(declared: Declaration, kb_id: str) -> Iterator[Problem]:
    """Find strategies that need vectors."""
    for settings, _ in within(declared):
        strategy = getattr(settings, "strategy", None)
        if "strategy" in settings.model_fields_set and strategy in NEEDS_VECTORS:
            message = f"knowledge base {kb_id!r} has no vectors for {strategy!r} (embedder: none)"
            yield settings.problem(("strategy",), message, "write hybrid, lexical or rerank")


def _searches_of_others(declared: Declaration, kb_id: str) -> Iterator[Problem]:
    """Find search settings that need an index built by Lorebind."""
    owner = f"knowledge base {kb_id!r} is filled by others"
    for settings, _ in within(declared):
        strategy = getattr(settings, "strategy", None)
        if "strategy" in settings.model_fields_set and strategy in NEEDS_WORDS:
            message = f"{owner} and has no word index for {strategy!r}"
            yield settings.problem(("strategy",), message, "write similarity, mmr or rerank")
        if getattr(settings, "neighbours", None):
            message = f"{owner}, so the order of its passages is unknown"
            yield settings.problem(("neighbours",), message, "remove it")
        if getattr(settings, "versions", None):
            message = f"{owner}, so the versions of its documents are unknown"
            yield settings.problem(("versions",), message, "remove it")
