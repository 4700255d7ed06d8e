"""A project that both versions can open, and its answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind import Project, tenant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.records import QueryResult

FOLDER = Path(__file__).parent
KNOWLEDGE_BASES = (("default", None), ("acme", None), ("default", "reply"))
"""The tenant of each knowledge base, and the workflow that declares it. All have the id `docs`."""
DATABASES: dict[str, dict[str, Any]] = {
    "sqlite": {"type": "sqlite"},
    "postgres": {"type": "pgvector", "config": {"dsn": "{{ .secrets.DSN }}"}},
    "qdrant": {"type": "qdrant", "config": {"path": ".lorebind/qdrant"}},
    "langchain": {
        "type": "langchain",
        "class": "kept:KeptInMemory",
        "config": {"path": "{{ .env.KEPT }}"},
        "persistent": True,
    },
}
QUESTIONS = (
    "How do I rotate the keys?",
    "when are invoices sent to a cafe",
    "settings refunds refunded",
    "nothing of the kind",
)
STRATEGIES = ("similarity", "lexical", "hybrid", "mmr")


def build(root: Path, database: str, *, dsn: str = "", **settings: Any) -> Project:
    """Write the project into a folder that contains `docs`.

    Args:
        root: the folder.
        database: one of `DATABASES`.
        dsn: the DSN of PostgreSQL.
        settings: further settings of the database.
    """
    vector_db = DATABASES[database]
    config = {**vector_db.get("config", {}), **settings}
    docs = {
        "id": "docs",
        "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
        "chunking": {"size": 120, "overlap": 20},
        "metadata": {"team": "night\x01shift"},
        "retrieval": {"top_k": 4},
    }
    declared = {
        "name": "earlier",
        "embedders": [{"id": "words", "provider": "hashing", "config": {"dimension": 32}}],
        "vector_dbs": [{"id": "db", **vector_db, "config": config}],
        "knowledge_bases": [docs],
        "workflows": [
            {
                "id": "reply",
                "knowledge_bases": [{**docs, "retrieval": {"top_k": 3, "neighbours": 1}}],
                "tasks": [{"id": "say", "prompt": "Say it."}],
            }
        ],
    }
    kept = root / ".lorebind" / "kept.json"
    return Project.build(declared, root=root, environ={"DSN": dsn, "KEPT": str(kept)})


def answers(project: Project, strategies: Sequence[str] = STRATEGIES) -> dict[str, Any]:
    """Search each knowledge base with each strategy for each question, and return the results."""
    found: dict[str, Any] = {}
    chunks: dict[str, Any] = {}

    def note(name: str, result: QueryResult) -> None:
        # The raw scores, because the computation of `score` has changed since.
        found[name] = [[match.id, dict(match.scores)] for match in result]
        chunks.update({match.id: [match.text, dict(match.metadata)] for match in result})

    for owner, workflow in KNOWLEDGE_BASES:
        with tenant(owner):
            for strategy in strategies:
                for question in QUESTIONS:
                    result = project.query("docs", question, workflow=workflow, strategy=strategy)
                    note(f"{owner}, {workflow}, {strategy}: {question}", result)
    if "hybrid" in strategies:
        where = {"uri": "docs/billing.md", "team": "night\x01shift"}
        note("filtered", project.query("docs", QUESTIONS[0], filters=where))
    return _rounded({"found": found, "chunks": chunks})


def only(some: dict[str, Any], strategies: Sequence[str]) -> dict[str, Any]:
    """Keep only the answers of these strategies."""
    found = {
        name: matches
        for name, matches in some["found"].items()
        if any(f", {strategy}" in name for strategy in strategies)
    }
    named = {name for matches in found.values() for name, _ in matches}
    return {"found": found, "chunks": {name: some["chunks"][name] for name in sorted(named)}}


def answers_by_hand(project: Project) -> dict[str, Any]:
    """Search a collection to which documents were added by code."""
    notes = project.collection("notes")
    found = notes.similarity_search_with_score("notes about tea", k=3)
    told = [[one.id, one.page_content, one.metadata, score] for one, score in found]
    unlike = notes.max_marginal_relevance_search("tea", k=2)
    return _rounded({"nearest": told, "unlike": [one.id for one in unlike]})


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value
