"""Workflows: their inputs, their tasks, and the state that tasks share."""

from lorebind_config.declarations.workflows.base import (
    CHANNELS,
    ChannelDeclaration,
    TaskBase,
    with_nested,
)
from lorebind_config.declarations.workflows.inputs import InputDeclaration
from lorebind_config.declarations.workflows.leaves import (
    AggregateTask,
    BasicTask,
    CompositeTask,
    PythonTask,
    RouterTask,
    WaitTask,
)
from lorebind_config.declarations.workflows.tasks import (
    CollectionTask,
    ParallelTask,
    TaskDeclaration,
)
from lorebind_config.declarations.workflows.workflow import (
    WorkflowDeclaration,
    WorkflowEntry,
    WorkflowFile,
)

__all__ = [
    "CHANNELS",
    "AggregateTask",
    "BasicTask",
    "ChannelDeclaration",
    "CollectionTask",
    "CompositeTask",
    "InputDeclaration",
    "ParallelTask",
    "PythonTask",
    "RouterTask",
    "TaskBase",
    "TaskDeclaration",
    "WaitTask",
    "WorkflowDeclaration",
    "WorkflowEntry",
    "WorkflowFile",
    "with_nested",
]
