"""Lorebind: declare knowledge once, bind it to every agent.

from lorebind import Project

project = Project.load("lorebind.yaml")
project.ingest("docs")
for match in project.query("docs", "How do I rotate keys?"):
    print(match.score, match.metadata["uri"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.errors import (
    ConfigurationError,
    EmbedderError,
    IndexMismatchError,
    IngestRefusedError,
    IngestRunningError,
    LorebindError,
    MissingDependencyError,
    ModelError,
    NotFoundError,
    NotIngestedError,
    PluginError,
    Problem,
    RateLimitError,
    RerankerError,
    SourceError,
    StoreError,
    UsageError,
)
from lorebind_knowledge.events import Event, Extension
from lorebind_knowledge.optional import lazy_door
from lorebind_knowledge.scope import tenant

if TYPE_CHECKING:
    from lorebind.project import Project

__all__ = [
    "ConfigurationError",
    "EmbedderError",
    "Event",
    "Extension",
    "IndexMismatchError",
    "IngestRefusedError",
    "IngestRunningError",
    "LorebindError",
    "MissingDependencyError",
    "ModelError",
    "NotFoundError",
    "NotIngestedError",
    "PluginError",
    "Problem",
    "Project",
    "RateLimitError",
    "RerankerError",
    "SourceError",
    "StoreError",
    "UsageError",
    "tenant",
]

__getattr__ = lazy_door(__name__, {"project": ("Project",)})
