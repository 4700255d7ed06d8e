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
    "GenerateSettings": "lorebind_bindings",
    "JsonLinesSink": "lorebind_bindings",
    "KnowledgeBase": "lorebind.knowledge_base",
    "MemorySink": "lorebind_bindings",
    "Project": "lorebind.project",
    "RetrievalSettings": "lorebind_bindings",
    "RetrieverSettings": "lorebind_bindings",
    "RunEvent": "lorebind_bindings",
    "RunResult": "lorebind_bindings",
    "RunStream": "lorebind_bindings",
    "Sink": "lorebind_bindings",
    "StdoutSink": "lorebind_bindings",
    "TaskContext": "lorebind_bindings",
    "TaskResult": "lorebind_bindings",
    "ThreadInfo": "lorebind_bindings",
    "Update": "lorebind_bindings",
    "event_schema": "lorebind_bindings",
    "existing": "lorebind.objects",
    "tenant": "lorebind_config.namespace",
}


def __getattr__(name: str) -> Any:
    # Names are imported on first use: Python imports this module before the command line, which
    # must be installed early to report an interrupt by Ctrl-C.
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "lorebind_config.errors")), name)
