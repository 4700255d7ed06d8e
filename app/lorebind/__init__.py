"""Lorebind: declare knowledge once, bind it to every agent.

```python
from lorebind import Project

project = Project.load("lorebind.yaml")
docs = project.knowledge_base("docs")
docs.ingest()
for match in docs.query("How do I rotate keys?"):
    print(match.score, match.metadata["uri"])
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lorebind_bindings
import lorebind_knowledge  # noqa: F401 - registers its kinds
import lorebind_prompts  # noqa: F401 - registers its kinds

if TYPE_CHECKING:
    from lorebind.knowledge_base import KnowledgeBase
    from lorebind.objects import existing
    from lorebind.project import Project
    from lorebind_bindings import (
        GenerateSettings,
        JsonLinesSink,
        MemorySink,
        RetrievalSettings,
        RetrieverSettings,
        RunEvent,
        RunResult,
        RunStream,
        Sink,
        StdoutSink,
        TaskContext,
        TaskResult,
        ThreadInfo,
        Update,
        event_schema,
    )
    from lorebind_config.errors import (
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
        TaskError,
        ThreadRefusedError,
        UsageError,
    )
    from lorebind_config.namespace import tenant
    from lorebind_knowledge.events import Event, Extension

__all__ = [
    "ConfigurationError",
    "EmbedderError",
    "Event",
    "Extension",
    "GenerateSettings",
    "IndexMismatchError",
    "IngestRefusedError",
    "IngestRunningError",
    "JsonLinesSink",
    "KnowledgeBase",
    "LorebindError",
    "MemorySink",
    "MissingDependencyError",
    "ModelError",
    "NotFoundError",
    "NotIngestedError",
    "PluginError",
    "Problem",
    "Project",
    "RateLimitError",
    "RerankerError",
    "RetrievalSettings",
    "RetrieverSettings",
    "RunEvent",
    "RunResult",
    "RunStream",
    "Sink",
    "SourceError",
    "StdoutSink",
    "StoreError",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "ThreadInfo",
    "ThreadRefusedError",
    "Update",
    "UsageError",
    "event_schema",
    "existing",
    "tenant",
]

_HOMES = {
    "Event": "lorebind_knowledge.events",
    "Extension": "lorebind_knowledge.events",
    "KnowledgeBase": "lorebind.knowledge_base",
    "Project": "lorebind.project",
    "existing": "lorebind.objects",
    "tenant": "lorebind_config.namespace",
}
"""The modules of names that are neither of `lorebind_bindings` nor errors."""


def __getattr__(name: str) -> Any:
    # Names are imported on first use: Python imports this module before the command line, which
    # must be installed early to report an interrupt by Ctrl-C.
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    others = "lorebind_bindings" if name in lorebind_bindings.__all__ else "lorebind_config.errors"
    return getattr(import_module(_HOMES.get(name, others)), name)
