"""The options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import typer


class Output(StrEnum):
    """The formats of results."""

    table = "table"
    json = "json"
    yaml = "yaml"


Strategy = Literal["upsert", "replace"]
"""The ways in which an ingest changes the index."""

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the knowledge base.")]
ProjectOption = Annotated[
    str,
    typer.Option(
        "--project",
        "-p",
        metavar="DIR",
        help="The project's folder or file. By default, the nearest lorebind.yaml upwards.",
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="The format of the result.")]
WorkflowOption = Annotated[
    str | None,
    typer.Option("--workflow", "-w", help="The workflow that declares it, if a workflow does."),
]
TopKOption = Annotated[
    int | None, typer.Option("--top-k", min=1, max=50, help="The maximum number of passages.")
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Allow what the project demands for this run only."),
]
InputsOption = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input of the workflow."),
]
WorkflowArgument = Annotated[
    str, typer.Argument(metavar="WORKFLOW", help="The id of the workflow.")
]
ThreadArgument = Annotated[
    str | None, typer.Argument(metavar="THREAD", help="The thread, as listed by `threads`.")
]
ThreadOption = Annotated[
    str | None, typer.Option("--thread", "-t", metavar="ID", help="The thread, as for `run`.")
]
