"""`lorebind workflow`: show the workflows of a project and the threads of their runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.interrupts import completed_by
from lorebind.cli.options import (
    Output,
    OutputOption,
    ProjectOption,
    ThreadArgument,
    ThreadOption,
    WorkflowArgument,
    command_group,
)
from lorebind.cli.printing import print_data, print_table
from lorebind.cli.run_result import show_result
from lorebind.cli.target import open_read_only, open_target, same_project, target_declarations
from lorebind.cli.terminal import print_line
from lorebind_bindings.workflow.drawing import as_mermaid, as_text
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from lorebind_bindings import ThreadInfo

_LONGEST = 60
_HIDDEN = ("graph", "turn", "command")
"""Details of a thread that are not printed."""

app = command_group("Show workflows and their runs; replay a run.")


class Format(StrEnum):
    """The formats of a graph."""

    text = "text"
    mermaid = "mermaid"
    json = "json"


@app.callback()
def workflow() -> None:
    """Show workflows and their runs; replay a run."""


@app.command("list")
def list_(project: ProjectOption = ".", output: OutputOption = Output.table) -> None:
    """List the workflows of a project with their inputs."""
    with target_declarations(project) as loaded:
        workflows = loaded.workflows()
    if output is not Output.table:
        print_data({"workflows": workflows}, output)
        return
    if not workflows:
        print_line("The project declares no workflow; see workflows: in the YAML reference.")
        return
    print_table(
        ("workflow", "inputs", "tasks", "description"),
        (
            (info["id"], ", ".join(info["inputs"]), len(info["tasks"]), info["description"])
            for info in workflows
        ),
    )


@app.command()
def show(
    workflow: WorkflowArgument,
    form: Annotated[
        Format, typer.Option("--format", "-f", help="Lines, a Mermaid flowchart, or data.")
    ] = Format.text,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Show the graph of a workflow: its tasks and the transitions between them."""
    if form is Format.mermaid and output is not Output.table:
        raise UsageError(f"--format mermaid is not {output}; omit --format or --output")
    with target_declarations(project) as loaded:
        drawn = loaded.workflow_outline(workflow)
    if form is Format.json or output is not Output.table:
        print_data(drawn, Output.yaml if output is Output.yaml else Output.json)
    elif form is Format.mermaid:
        print(as_mermaid(drawn))
    else:
        for line in as_text(drawn):
            print_line(line)


@app.command()
def threads(
    workflow: WorkflowArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many.")] = 100,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """List the threads of a workflow with their status, newest first."""
    with open_read_only(project) as loaded:
        threads = loaded.threads(workflow, limit=limit)
    if output is not Output.table:
        rows = [
            {name: value for name, value in asdict(thread).items() if name not in _HIDDEN}
            for thread in threads
        ]
        print_data({"threads": rows}, output)
        return
    if not threads:
        begin = same_project(f"lorebind run {workflow}", project)
        print_line(f"Workflow {workflow} has no threads yet; start one: {begin}")
        return
    print_table(
        ("thread", "status", "last changed", "about"),
        ((info.thread_id, info.status, _minute(info.updated), _about(info)) for info in threads),
    )


@app.command()
def history(
    workflow: WorkflowArgument,
    thread: ThreadArgument = None,
    named: ThreadOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """List the finished tasks of a thread with their outputs, turn by turn."""
    thread = _thread(thread, named)
    with open_read_only(project) as loaded:
        history = loaded.history(workflow, thread)
    if output is not Output.table:
        print_data({"history": history}, output)
        return
    if not history:
        print_line(f"No task of thread {thread} has finished yet.")
        return
    print_table(
        ("turn", "step", "task", "status", "attempts", "seconds", "output"),
        (
            (
                step["turn"],
                step["step"],
                step["path"],
                step["status"],
                step["attempts"],
                f"{step['seconds']:.2f}",
                _gave(step),
            )
            for step in history
        ),
    )


@app.command()
def replay(
    workflow: WorkflowArgument,
    step: Annotated[
        int,
        typer.Option(
            "--step",
            "-s",
            min=0,
            help="Keep the tasks up to this step of `history`; 0 keeps none.",
        ),
    ],
    thread: ThreadArgument = None,
    named: ThreadOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Run the last turn of a thread again after a step, as a new thread.

    The original thread does not change. Kept tasks do not run again.
    """
    thread = _thread(thread, named)
    listing = same_project(f"lorebind workflow threads {workflow}", project)
    completed_by(f"`{listing}` lists the new thread")
    with open_target(project) as loaded:
        result = loaded.replay(workflow, thread, step)
        if output is Output.table:
            print_line(f"Thread {result.thread_id} replays {thread} from after step {step}.")
        show_result(loaded, workflow, result, output)


def _thread(thread: str | None, named: str | None) -> str:
    """Return the thread of a command, which `--thread` may name, as for `run`.

    Raises:
        UsageError: there is none, or there are two.
    """
    name = thread if named is None else named
    if name is None or None not in (thread, named):
        raise UsageError("name one thread, as in: lorebind workflow history WORKFLOW THREAD")
    return name


def _minute(moment: str) -> str:
    """Format an ISO 8601 time for people."""
    return f"{moment[:10]} {moment[11:19]}"


def _about(thread: ThreadInfo) -> str:
    """Return the questions that the thread waits for, or its error."""
    if thread.waiting:
        return ", ".join(
            f"{interrupt['path']}: {interrupt['prompt']}" for interrupt in thread.waiting
        )
    if thread.paused:
        return f"before {', '.join(thread.paused)}"
    return thread.error


def _gave(step: dict[str, Any]) -> str:
    if step["error"]:
        return str(step["error"]["message"])
    line = json.dumps(step["output"], ensure_ascii=False)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
