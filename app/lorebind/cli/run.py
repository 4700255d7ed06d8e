"""`lorebind run`: run a workflow until it completes or waits for an answer."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.inputs import answer_values, declared_inputs, input_values
from lorebind.cli.interrupts import completed_by
from lorebind.cli.options import (
    InputsOption,
    Output,
    OutputOption,
    ProjectOption,
    WorkflowArgument,
)
from lorebind.cli.run_result import how_to_resume, keeps_threads, show_result
from lorebind.cli.streaming import show_events
from lorebind.cli.target import open_target, same_project
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from lorebind.cli.target import AnyProject


def run(
    workflow: WorkflowArgument,
    inputs: InputsOption = None,
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread", "-t", metavar="ID", help="The thread's id, either new or existing."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the thread where it stopped.")
    ] = False,
    answers: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            "-a",
            metavar="TASK=VALUE",
            help="Resume with an answer for a waiting task: JSON, or else text.",
        ),
    ] = None,
    interrupt_before: Annotated[
        list[str] | None,
        typer.Option("--interrupt-before", metavar="TASK", help="Pause before this task."),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Print events as they happen.")] = False,
    events: Annotated[
        Path | None,
        typer.Option("--events", metavar="FILE", help="Append the events to FILE as JSON Lines."),
    ] = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Run a workflow and print its output, with its citations.

    The exit code is 3 if the run waits or is paused, and 1 if it fails. In both cases, the command
    prints how to resume the run; finished tasks are kept.
    """
    replies = answer_values(answers)
    resumed = resume or bool(answers)
    _check_options(workflow, thread, resumed, inputs, project)
    if stream and output is Output.yaml:
        raise UsageError("--stream prints text or lines of JSON; use --output json")
    with open_target(project) as loaded:
        takes = declared_inputs(loaded, workflow)
        if resumed:
            _check_kept(loaded, workflow)
        thread_id = thread or uuid.uuid4().hex
        completed_by(f"this resumes it: {how_to_resume(loaded, workflow, thread_id)}")
        shared: dict[str, Any] = {
            "interrupt_before": interrupt_before or (),
            "sinks": [events] if events else [],
        }
        if resumed:
            start = loaded.resume_stream if stream else loaded.resume
            begun: Any = start(workflow, thread_id, replies, **shared)
        else:
            values = input_values(inputs, takes)
            begin = loaded.run_stream if stream else loaded.run
            begun = begin(workflow, values, thread_id=thread_id, **shared)
        result = show_events(begun, output) if stream else begun
        show_result(loaded, workflow, result, output, compact=stream)


def _check_options(
    workflow: str, thread: str | None, resumed: bool, inputs: list[str] | None, project: str
) -> None:
    """Check that the options can be combined.

    Raises:
        UsageError: they cannot.
    """
    if thread is not None and not thread.strip():
        raise UsageError("--thread is empty; name the thread")
    if not resumed:
        return
    if thread is None:
        listing = same_project(f"lorebind workflow threads {workflow}", project)
        raise UsageError(
            "--resume and --answer need a thread; add --thread ID, "
            f"`{listing}` lists the existing threads"
        )
    if inputs:
        raise UsageError(
            "a resumed thread already has its inputs; omit --input, or, to begin a new turn of a "
            "completed thread, omit --resume and --answer"
        )


def _check_kept(project: AnyProject, workflow: str) -> None:
    """Check that threads of the workflow outlive the command that ran them.

    Raises:
        UsageError: they do not.
    """
    if not keeps_threads(project, workflow):
        raise UsageError(
            f"the threads of workflow {workflow!r} are kept in memory and ended with the "
            "command that ran them; to resume them, declare checkpointer: { type: sqlite }"
        )
