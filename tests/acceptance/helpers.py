"""Helpers: all passages that a project serves, and all texts that its embedder received."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lorebind import Project
from lorebind_config.errors import NotIngestedError
from lorebind_knowledge.records import DocumentMatch

NOTING = "tests.acceptance.noting_embedder:Noting"
"""The embedder of these tests, as a project names it."""

MOST = 50
"""The largest top_k that a project may use."""


def served(
    project: Project, kb_id: str, uris: Sequence[str], *, at_once: int = 8
) -> dict[str, list[DocumentMatch]]:
    """Return every passage of these documents that a search can find, by document and location.

    Documents without passages are omitted. `at_once` of them have fewer than `MOST` passages.
    """
    by_uri: dict[str, list[DocumentMatch]] = defaultdict(list)
    for start in range(0, len(uris), at_once):
        filters = {"uri": {"$in": list(uris[start : start + at_once])}}
        try:
            result = project.query(
                kb_id, "everything there is", strategy="similarity", top_k=MOST, filters=filters
            )
        except NotIngestedError:
            return {}
        assert len(result.matches) < MOST
        for match in result.matches:
            by_uri[match.metadata["uri"]].append(match)
    for matches in by_uri.values():
        matches.sort(key=lambda match: (match.metadata["start"], match.id))
    return dict(by_uri)


def texts(by_uri: dict[str, list[DocumentMatch]]) -> dict[str, list[str]]:
    """Return the same passages, reduced to their texts."""
    return {uri: [match.text for match in matches] for uri, matches in by_uri.items()}


def embedded(log: Path) -> list[tuple[str, str]]:
    """Return all texts that the embedder received, in order, each with its revision."""
    if not log.exists():
        return []
    calls: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    return [(call["revision"], text) for call in calls for text in call["texts"]]
