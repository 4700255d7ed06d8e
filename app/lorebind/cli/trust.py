"""`lorebind trust`: allow a project from others to run its code and read variables for `ask`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lorebind import trust as trusted
from lorebind.cli.opening import config_at
from lorebind.cli.options import Output, OutputOption
from lorebind.cli.printing import print_data
from lorebind.cli.terminal import print_line


def trust(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="The project's folder or file.")
    ] = ".",
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting the project.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the trusted folders.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Show which code, variables and hosts a project uses; let `ask` and `chat` use them in future.

    Trust is stored outside of the folder. It covers what is listed, and the content of the modules.
    `ask` asks again only for what is new.
    """
    path = Path(folder)
    if list_:
        result: dict[str, Any] = {"trusted": trusted.trusted_folders()}
        lines = result["trusted"]
    elif remove:
        was = trusted.forget(path.parent if path.is_file() else path)
        result = {"folder": folder, "removed": was}
        lines = [f"{folder} {'is no longer trusted' if was else 'was not trusted'}"]
    else:
        from lorebind_config.trust import demands_of  # as in `load_config`

        demands = demands_of(config_at(path))
        if demands.all:
            trusted.trust(demands)
        result = {"folder": folder, "demands": demands.all}
        state = "is trusted with this" if demands.all else "asks for nothing that needs trust"
        lines = [*map(str, demands.all), f"{folder} {state}"]
    if output is not Output.table:
        print_data(result, output)
        return
    for line in lines:
        print_line(line)
