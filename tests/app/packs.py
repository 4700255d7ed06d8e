"""Projects whose knowledge base is packed and unpacked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorebind import Project
from tests.bindings.helpers import write

DOCUMENTS = {
    f"docs/{number}.md": f"# Service {number}\n\nThe keys of service {number} rotate.\n\n"
    + 2 * f"## Lunch\n\nPlate {number} is served at noon.\n\n"
    for number in range(12)
}
NOTE = {"id": "note.md", "text": "A note about zebras.", "metadata": {"team": "old"}}
QUESTIONS = ("When do keys rotate?", "Who serves lunch?", "zebras", "service 7")


class Here:
    """A project in a folder of its own, over a vector database."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._opened: list[Project] = []

    def project(
        self,
        name: str = "shop",
        vector_db: Mapping[str, Any] | None = None,
        folder: str = "",
        **kb: Any,
    ) -> Project:
        root = write(self.root / (folder or name), DOCUMENTS)
        declared = {
            "name": name,
            "embedders": [
                {"id": "words", "provider": "hashing"},
                {"id": "other", "provider": "hashing", "config": {"dimension": 64}},
                {
                    "id": "dear",
                    "provider": "hashing",
                    "config": {"dimension": 32},
                },
            ],
            "vector_dbs": [{"id": "here", **(vector_db or {"type": "sqlite"})}],
            "knowledge_bases": [
                {
                    "id": "docs",
                    "embedder": "words",
                    "chunking": {"size": 64, "overlap": 0},
                    "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
                    **kb,
                }
            ],
        }
        self._opened.append(Project.build(declared, root=root))
        return self._opened[-1]

    def close(self) -> None:
        for project in self._opened:
            project.close()


def answers(project: Project) -> list[Any]:
    """Return everything that questions find, with all scores."""
    rows: list[Any] = []
    for question in QUESTIONS:
        for strategy in ("hybrid", "similarity", "lexical"):
            result = project.query("docs", question, strategy=strategy, top_k=50)
            rows += [
                (
                    *(match.id, match.score, match.relevance, dict(match.scores)),
                    *(match.text, dict(match.metadata)),
                )
                for match in result.matches
            ]
    return rows


def without_ids(project: Project) -> list[Any]:
    """Return the same without ids, which break ties."""
    return sorted((row[4], *row[1:3], sorted(row[3].items())) for row in answers(project))


def packed(project: Project, path: Path) -> Path:
    project.knowledge_base("docs").pack(path)
    return path
