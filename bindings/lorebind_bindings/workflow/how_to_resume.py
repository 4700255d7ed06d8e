"""The command or request that resumes a thread, for messages."""

from __future__ import annotations

import json
import os
import shlex
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lorebind_config.errors import Suggestion
from lorebind_config.namespace import tenant_option
from lorebind_config.project_files import PROJECT_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_config.reading.loaded import LoadedProject

served_at: ContextVar[str] = ContextVar("served_at", default="")
"""Path under which the REST API serves workflows; empty for other callers."""


def how_to_resume(
    loaded: LoadedProject,
    workflow: str,
    thread_id: str,
    waiting: Sequence[Mapping[str, Any]] = (),
) -> Suggestion:
    """Return the command that resumes a thread; its text may be a REST request or a Python call.

    The Python call is for projects that are not declared in a file.

    Args:
        loaded, workflow, thread_id: the project, the workflow and the thread.
        waiting: the questions that the thread waits for.
    """
    command = resume_command(workflow, thread_id, waiting)
    if place := served_at.get():
        text = f"POST {place}/{quote(workflow)}/threads/{quote(thread_id, safe='')}/resume"
    elif loaded.file is None:
        answers = "".join(f", {{{name!r}: ...}}" for name in _names(waiting)[:1])
        text = f"project.resume({workflow!r}, {thread_id!r}{answers})"
    else:
        text = command + which_project(loaded)
    return Suggestion(command, text)


def resume_command(workflow: str, thread_id: str, waiting: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the command without the options that select the project and the tenant."""
    words = ["lorebind", "run", workflow, "--thread", thread_id, "--resume"]
    line = " ".join(map(shlex.quote, words))
    for name, question in zip(_names(waiting), waiting, strict=True):
        line += f" --answer {shlex.quote(name)}={shlex.quote(_form(question['schema']))}"
    return line


def how_to_list(workflow: str, tenant: str, *, tenancy_required: bool) -> Suggestion:
    """Return the command that lists the threads of a tenant's workflow."""
    command = f"lorebind workflow threads {workflow}"
    if place := served_at.get():
        return Suggestion(command, f"GET {place}/{quote(workflow)}/threads")
    return Suggestion(command, command + tenant_option(tenant, required=tenancy_required))


def which_project(loaded: LoadedProject) -> str:
    """Return the command line options that select the project and tenant, if they are needed."""
    options = ""
    if loaded.file is not None:
        place = loaded.file.parent if loaded.file.name == PROJECT_FILE else loaded.file
        place = place.absolute()
        if place != Path.cwd():
            below = place.is_relative_to(Path.cwd())
            options += f" --project {shlex.quote(os.path.relpath(place) if below else str(place))}"
    return options + tenant_option(loaded.tenant, required=loaded.tenancy_required)


def _names(waiting: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the name to answer each question by: the task's id, or its path if ids repeat."""
    ids = [question["task"] for question in waiting]
    return [
        question["task"] if ids.count(question["task"]) == 1 else question["path"]
        for question in waiting
    ]


def _form(schema: Any) -> str:
    """Return the form of an answer, not a valid answer, so that pasting it approves nothing."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not properties:
        return "VALUE"
    required = schema.get("required")
    names = required if isinstance(required, list) and required else [*properties]
    return f"{{{', '.join(f'{json.dumps(name)}: ...' for name in names)}}}"
