"""Workflows made in a test: functions of the test as tasks, and threads in memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from lorebind_bindings import RunResult, TaskContext, Workflows
from lorebind_bindings.workflow.threads.threads import ThreadInfo
from lorebind_config.errors import TaskError
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import build_project
from lorebind_knowledge import KnowledgeService

from .helpers import Echo, OneModel

Declared = dict[str, Any]

_functions: dict[str, Callable[..., Any]] = {}
_HERE = Path(__file__).parent


def python(name: str, function: Callable[..., Any], **keys: Any) -> Declared:
    """Make a task that calls a function of the test; `args` are its arguments."""
    key = f"{function.__qualname__} at {id(function)}"
    _functions[key] = function
    caller = called_async if inspect.iscoroutinefunction(function) else called
    arguments = {"function": key, **keys.pop("args", {})}
    call = f"{__name__}:{caller.__name__}"
    return {"id": name, "type": "python", "call": call, "with": arguments, **keys}


def called(function: str, context: TaskContext, **inputs: Any) -> Any:
    return _functions[function](**_with_context(function, context, inputs))


async def called_async(function: str, context: TaskContext, **inputs: Any) -> Any:
    return await _functions[function](**_with_context(function, context, inputs))


def _with_context(function: str, context: TaskContext, inputs: dict[str, Any]) -> dict[str, Any]:
    wants_it = "context" in inspect.signature(_functions[function]).parameters
    return {**inputs, "context": context} if wants_it else inputs


def says(value: Any) -> Callable[[], Any]:
    """Return a function that returns this value."""
    return lambda: value


def raises(error: BaseException) -> Callable[[], Any]:
    """Return a function that raises this error."""

    def fail() -> None:
        raise error

    return fail


def wait(name: str, **keys: Any) -> Declared:
    """Make a task that asks for an answer."""
    return {"id": name, "type": "wait", "prompt": f"{name}?", **keys}


def collection(name: str, items: Any, *tasks: Declared, **keys: Any) -> Declared:
    """Make a task that runs these tasks for each item."""
    inner = {"task": tasks[0]} if len(tasks) == 1 else {"tasks": list(tasks)}
    return {"id": name, "type": "collection", "items": items, **inner, **keys}


def parallel(name: str, *branches: Any, **keys: Any) -> Declared:
    """Make a task that runs these tasks, or lists of tasks, concurrently."""
    return {"id": name, "type": "parallel", "branches": list(branches), **keys}


def to(*names: str) -> dict[str, list[str]]:
    """Make an edge to some tasks."""
    return {"next": list(names)}


def loaded_project(
    root: Path, *declared: Declared, environ: Mapping[str, str] | None = None, **keys: Any
) -> LoadedProject:
    """Load a project with these workflows, with threads in memory by default."""
    data = {
        "name": "p",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "memory", "type": "memory"}],
        "workflows": list(declared),
        "checkpointer": {"type": "memory"},
        **keys,
    }
    return build_project(data, root=root, environ=environ or {})


def workflows(
    *declared: Declared,
    root: Path = _HERE,
    model: BaseChatModel | None = None,
    **keys: Any,
) -> Workflows:
    """Return the workflows of such a project; close them if their threads are in files."""
    loaded = loaded_project(root, *declared, **keys)
    return Workflows(loaded, KnowledgeService(loaded), OneModel(model or Echo()))


def flow(*tasks: Declared, **keys: Any) -> Declared:
    """Make the workflow `w` of some tasks."""
    return {"id": "w", "tasks": list(tasks), **keys}


async def run(*tasks: Declared, inputs: Mapping[str, Any] | None = None, **keys: Any) -> RunResult:
    """Run these tasks as a workflow, in a new thread."""
    return await workflows(flow(*tasks, **keys)).run("w", inputs or {})


@contextmanager
def task_fails(
    cause: type[BaseException], match: str | None = None
) -> Iterator[pytest.ExceptionInfo[TaskError]]:
    """Check that a task fails inside the block, with this error as the cause."""
    with pytest.raises(TaskError, match=match) as caught:
        yield caught
    assert isinstance(caught.value.__cause__, cause)


def statuses(result: RunResult) -> dict[str, str]:
    return {name: task.status for name, task in result.tasks.items()}


def paths(result: RunResult) -> list[str]:
    return [question["path"] for question in result.waiting]


async def begun(*tasks: Declared, **keys: Any) -> tuple[Workflows, RunResult]:
    flows = workflows(flow(*tasks, **keys))
    return flows, await flows.run("w", {}, thread_id="t")


async def info(flows: Workflows) -> ThreadInfo:
    (info,) = await flows.threads("w")
    return info
