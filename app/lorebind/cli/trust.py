"""`lorebind trust`: allow a project from others to run its code and read variables for `ask`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.options import Output, OutputOption
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import Demands


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
    from lorebind import trust as trusted
    from lorebind.cli.opening import config_at
    from lorebind.cli.printing import print_data, print_line
    from lorebind_knowledge.configuration import demands_of

    path = Path(folder)
    if list_:
        result: dict[str, Any] = {"trusted": trusted.trusted_folders()}
        lines = result["trusted"]
    elif remove:
        was = trusted.forget(path.parent if path.is_file() else path)
        result = {"folder": folder, "removed": was}
        lines = [f"{folder} {'is no longer trusted' if was else 'was not trusted'}"]
    else:
        demands = demands_of(config_at(path))
        if demands.all:
            trusted.trust(demands)
        result = {"folder": folder, "demands": demands.all}
        said = "is trusted with this" if demands.all else "asks for nothing that needs trust"
        lines = [*map(str, demands.all), f"{folder} {said}"]
    if output is not Output.table:
        print_data(result, output)
        return
    for line in lines:
        print_line(line)


def check_trusted(demands: Demands, path: Path) -> None:
    """Show what the user has not granted yet; ask for it in a terminal.

    Args:
        demands: what the project needs trust for.
        path: how the user named the project.

    Raises:
        UsageError: the project is not trusted.
    """
    from lorebind import trust as trusted
    from lorebind.cli.printing import print_line

    missing = trusted.not_granted(demands)
    for demand in missing:
        print_line(str(demand), stderr=True)
    if not missing:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        print("Do you trust the project with this? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            trusted.trust(demands)
            return
        raise UsageError("the project is not trusted, and nothing of it was run")
    raise UsageError(
        "this project is not trusted, and demands the permissions listed above; read its files, "
        f"then trust it with: lorebind trust {shlex.quote(str(path))}; or for this run with --trust"
    )
