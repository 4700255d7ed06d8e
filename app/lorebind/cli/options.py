"""The options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """How results are printed."""

    table = "table"
    json = "json"
    yaml = "yaml"


ProjectOption = Annotated[
    str, typer.Option("--project", "-p", metavar="DIR", help="The project's folder or file.")
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print the result.")]
