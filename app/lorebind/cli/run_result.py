"""Print the result of a run, or the questions it waits for and the command that resumes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from lorebind.cli.options import Output
from lorebind.cli.printing import counted, print_data
from lorebind.cli.target import same_project
from lorebind.cli.terminal import console, print_line
from lorebind.plain_data import as_data
from lorebind_bindings.workflow.how_to_resume import resume_command, which_project

if TYPE_CHECKING:
    from lorebind.cli.target import AnyProject
    from lorebind_bindings import RunResult, TaskResult
    from lorebind_config.reading.loaded import LoadedProject

STOPPED = 3
"""The exit code of a run that waits for an answer, or is paused."""


def show_result(
    project: AnyProject,
    workflow: str,
    result: RunResult,
    output: Output,
    *,
    compact: bool = False,
) -> None:
    """Print the result of a run.

    Args:
        project: the project.
        workflow: the id of the workflow.
        result: the result of the run.
        output: the format.
        compact: print JSON as one line.

    Raises:
        Exit: the run has not completed.
    """
    if compact and output is Output.json:
        print(json.dumps(as_data(result)))
    elif output is not Output.table:
        print_data(result, output)
    elif result.status == "completed":
        _print_outputs(result)
    else:
        _print_stop(project, workflow, result)
    if result.status != "completed":
        raise typer.Exit(STOPPED)


def _print_outputs(result: RunResult) -> None:
    """Print each output with the sources of its task below it.

    Each prompt numbers its passages from 1: a marker is clear only next to the sources of its text.
    """
    out = console()
    named = result.output if isinstance(result.output, dict) else {"output": result.output}
    tasks = dict(result.tasks)

    def print_task(task_id: str, *, sources: bool = True) -> None:
        prompts = _prompts(result.usage.get(task_id, {}))
        _print_task(task_id, tasks.pop(task_id), prompts, sources=sources)

    for name, value in named.items():
        origin = next((key for key, task in tasks.items() if _is_of(value, task)), None)
        items = [] if origin is None else tasks[origin].items
        for at, item in enumerate(items):
            out.rule(f"{name}[{at}]", align="left")
            print(_text(item.output))
            if item.citations:
                _print_sources(f"{origin}[{at}]", item)
        if not items:
            out.rule(name, align="left")
            print(_text(value))
        if origin is not None:
            print_task(origin, sources=not items)
    for task_id in list(tasks):
        print_task(task_id)


def _is_of(value: Any, task: TaskResult) -> bool:
    """Return whether an output is that of a task with citations."""
    return bool(task.citations) and value == task.output


def _text(value: Any) -> str:
    """Format a text unchanged, a list of texts as paragraphs, and anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and any(isinstance(item, str) for item in value):
        return "\n\n".join(map(_text, value))
    return json.dumps(value, ensure_ascii=False)


def _print_task(
    name: str, task: TaskResult, prompts: list[dict[str, Any]], *, sources: bool
) -> None:
    """Print the task's citations and prompt sizes, or its error; nothing if it has neither."""
    if task.status == "failed" and task.error:
        console().rule(f"{name} failed", align="left")
        failure = f"{task.error['type']}: {task.error['message']}"
        print_line(f"{failure} ({counted(task.attempts, 'attempt')})")
        return
    if not (prompts or task.citations or task.unknown_markers):
        return
    if sources:
        items = {f"{name}[{at}]": item for at, item in enumerate(task.items)}
        cited = {part: item for part, item in items.items() if item.citations} or {name: task}
        for part, result in cited.items():
            _print_sources(part, result)
    for marker in task.unknown_markers:
        print_line(f"warning: {marker} in the output belongs to no passage")
    for usage in prompts:
        exactness = "exact" if usage["exact"] else "estimated"
        tokens = f"{usage['prompt_tokens']} tokens ({usage['tokenizer']}, {exactness})"
        print_line(f"Prompt: {tokens}")


def _print_sources(part: str, result: TaskResult) -> None:
    console().rule(f"Sources of {part} ({result.verdict})", align="left")
    # The passages of each prompt are numbered from 1. A task with several prompts, such as a
    # workflow, may have several passages of one number, which then tells nothing.
    markers = [citation.marker for citation in result.citations]
    is_clear = len(set(markers)) == len(markers)
    for citation in result.citations:
        print_line(f"{citation.marker} {citation.label}" if is_clear else f"- {citation.label}")


def _prompts(usage: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the usage of each prompt of a task; a task that runs a workflow has several."""
    if "prompt_tokens" in usage:
        return [usage]
    return [prompt for inner in usage.values() for prompt in _prompts(inner)]


def _print_stop(project: AnyProject, workflow: str, result: RunResult) -> None:
    """Print the open questions, and how to answer them."""
    out = console()
    for question in result.waiting:
        out.rule(f"{question['path']} waits for an answer", align="left")
        print(question["prompt"])
        schema = question["schema"]
        expected = "anything" if schema is None else json.dumps(schema, ensure_ascii=False)
        print_line(f"Expected: {expected}")
    for path in result.paused:
        out.rule(f"Paused before {path}", align="left")
    if not keeps_threads(project, workflow):
        print_line("The thread was kept in memory and ends here; to resume such threads, declare")
        print_line("checkpointer: { type: sqlite }")
        return
    out.rule(f"Thread {result.thread_id}", align="left")
    how = how_to_resume(project, workflow, result.thread_id, result.waiting)
    print_line(f"{'Answer' if result.waiting else 'Continue'} with: {how}")


def keeps_threads(project: AnyProject, workflow: str) -> bool:
    """Check whether the threads of a workflow outlive the command."""
    config: LoadedProject | None = getattr(project, "config", None)
    if config is None:
        return True  # a server keeps threads at least as long as it runs
    return config.checkpointer(config.workflow(workflow)).type != "memory"


def how_to_resume(
    project: AnyProject,
    workflow: str,
    thread_id: str,
    waiting: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the command that resumes a thread.

    Args:
        project: the project, here or on a server.
        workflow: the id of the workflow.
        thread_id: the id of the thread.
        waiting: the questions that it waits for, see `RunResult`.
    """
    config: LoadedProject | None = getattr(project, "config", None)
    command = resume_command(workflow, thread_id, waiting)
    return same_project(command) if config is None else command + which_project(config)
