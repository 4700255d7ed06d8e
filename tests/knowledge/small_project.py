"""A project of two short documents, for the tests of extensions' events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lorebind_config.reading.loading import build_project
from lorebind_knowledge import Events, KnowledgeService

QUESTION = "where does the zebra sleep"
TEXTS = ("The zebra sleeps in the barn.", "Keys are rotated each quarter.")


def small_project(
    root: Path,
    *declared: Any,
    extensions: Sequence[Any] = (),
    environ: Mapping[str, str] | None = None,
    **more: Any,
) -> KnowledgeService:
    """Create a project with the knowledge base `docs` and these extensions."""
    documents = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]
    data = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "main", "type": "memory"}],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "inline", "documents": documents}]}
        ],
        "extensions": list(declared),
        **more,
    }
    return KnowledgeService(build_project(data, root=root, environ=environ), Events(extensions))
