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

from typing import TYPE_CHECKING

import lorebind_knowledge  # noqa: F401 - registers its kinds
import lorebind_prompts  # noqa: F401 - registers its kinds
from lorebind_config.plugins import lazy_door

if TYPE_CHECKING:
    from lorebind.knowledge_base import KnowledgeBase as KnowledgeBase
    from lorebind.objects import existing as existing
    from lorebind.project import Project as Project
    from lorebind_bindings import GenerateSettings as GenerateSettings
    from lorebind_bindings import JsonLinesSink as JsonLinesSink
    from lorebind_bindings import MemorySink as MemorySink
    from lorebind_bindings import RetrievalSettings as RetrievalSettings
    from lorebind_bindings import RetrieverSettings as RetrieverSettings
    from lorebind_bindings import RunEvent as RunEvent
    from lorebind_bindings import RunResult as RunResult
    from lorebind_bindings import RunStream as RunStream
    from lorebind_bindings import Sink as Sink
    from lorebind_bindings import StdoutSink as StdoutSink
    from lorebind_bindings import TaskContext as TaskContext
    from lorebind_bindings import TaskResult as TaskResult
    from lorebind_bindings import ThreadInfo as ThreadInfo
    from lorebind_bindings import Update as Update
    from lorebind_bindings import event_schema as event_schema
    from lorebind_config.errors import ConfigurationError as ConfigurationError
    from lorebind_config.errors import EmbedderError as EmbedderError
    from lorebind_config.errors import IndexMismatchError as IndexMismatchError
    from lorebind_config.errors import IngestRefusedError as IngestRefusedError
    from lorebind_config.errors import IngestRunningError as IngestRunningError
    from lorebind_config.errors import LorebindError as LorebindError
    from lorebind_config.errors import MissingDependencyError as MissingDependencyError
    from lorebind_config.errors import ModelError as ModelError
    from lorebind_config.errors import NotFoundError as NotFoundError
    from lorebind_config.errors import NotIngestedError as NotIngestedError
    from lorebind_config.errors import PluginError as PluginError
    from lorebind_config.errors import Problem as Problem
    from lorebind_config.errors import RateLimitError as RateLimitError
    from lorebind_config.errors import RerankerError as RerankerError
    from lorebind_config.errors import SourceError as SourceError
    from lorebind_config.errors import StoreError as StoreError
    from lorebind_config.errors import TaskError as TaskError
    from lorebind_config.errors import ThreadRefusedError as ThreadRefusedError
    from lorebind_config.errors import ToolError as ToolError
    from lorebind_config.errors import UsageError as UsageError
    from lorebind_config.namespace import tenant as tenant
    from lorebind_knowledge.events import Event as Event
    from lorebind_knowledge.events import Extension as Extension
else:
    # Python imports this module before the command line, which must be installed early to
    # report an interrupt by Ctrl-C.
    __all__, __getattr__ = lazy_door(
        __name__,
        {
            ".knowledge_base": "KnowledgeBase",
            ".objects": "existing",
            ".project": "Project",
            "lorebind_bindings": (
                "GenerateSettings JsonLinesSink MemorySink RetrievalSettings RetrieverSettings "
                "RunEvent RunResult RunStream Sink StdoutSink TaskContext TaskResult ThreadInfo "
                "Update event_schema"
            ),
            "lorebind_config.errors": (
                "ConfigurationError EmbedderError IndexMismatchError IngestRefusedError "
                "IngestRunningError LorebindError MissingDependencyError ModelError "
                "NotFoundError NotIngestedError PluginError Problem RateLimitError "
                "RerankerError SourceError StoreError TaskError ThreadRefusedError ToolError "
                "UsageError"
            ),
            "lorebind_config.namespace": "tenant",
            "lorebind_knowledge.events": "Event Extension",
        },
    )
