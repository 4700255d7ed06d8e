"""Generate the command line reference, one Markdown page, from the commands themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer.main
from typer import Context
from typer.core import TyperGroup

from lorebind.cli.commands import app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click import Command, Parameter

PAGE = "docs/reference/commands.md"

_INTRODUCTION = """\
# Command line

Every command has `--help`. `lorebind --install-completion` installs completion of commands and
options for your shell.

All commands take `--tenant NAME`, and `-v` to write logs to standard error. All except `chat` and
`serve` take `--output json` or `yaml`. All except `ask`, `chat`, `init` and
`trust`, which take a path, take `--project DIR`. Without it,
they use the nearest `lorebind.yaml`, in the current folder or above it, if the file and the folders
belong to you. `Project.load()` in Python uses only the folder that it names. The commands
`knowledge`, `bindings`, `workflow`, `ingest`, `query` and `run` take `--server URL` instead, see
[Use the commands against a server](../how-to/server.md#the-same-commands-against-a-server).

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | failure; `ask`: also a weak match or none; `query`: no match; `run`: thread not resumable |
| 2 | wrong usage or configuration |
| 3 | the workflow waits for an answer, or is paused |
| 130 | interrupted by Ctrl-C |
"""

_EVERYWHERE = {"tenant", "verbose"}


def command_reference() -> str:
    """Return the page: a table of all commands, then a section for each."""
    commands = list(_commands(typer.main.get_command(app), "lorebind"))
    rows = [f"| [`{path}`](#{_anchor(path)}) | {_summary(command)} |" for path, command in commands]
    table = ["| command | what it does |", "| --- | --- |", *rows]
    return "\n".join(
        [_INTRODUCTION, *table, "", *(_section(path, command) for path, command in commands)]
    )


def _commands(command: Command, path: str) -> Iterator[tuple[str, Command]]:
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    context = Context(command)
    for name in command.commands:
        _, loaded, _ = command.resolve_command(context, [name])
        assert loaded is not None
        yield from _commands(loaded, f"{path} {name}")


def _section(path: str, command: Command) -> str:
    lines = [f"## `{path}`", "", _help(command), ""]
    taken = [param for param in command.params if param.name not in _EVERYWHERE]
    if taken:
        lines += ["| parameter | default | what it does |", "| --- | --- | --- |"]
        lines += [
            f"| {_names(option)} | {_default(option)} | {_about(option)} |" for option in taken
        ]
        lines.append("")
    return "\n".join(lines)


def _help(command: Command) -> str:
    return "\n\n".join(
        " ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n")
    )


def _summary(command: Command) -> str:
    return _cell(_help(command).split("\n\n")[0].removesuffix("."))


def _names(parameter: Parameter) -> str:
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name or "").upper()
        return f"`{name}`" if parameter.required else f"`[{name}]`"
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    return f"{names} (required)" if parameter.required else names


def _default(parameter: Parameter) -> str:
    default = parameter.default
    if default is None or default is False or callable(default) or default in ((), []):
        return ""
    return f"`{getattr(default, 'value', default)}`"


def _about(parameter: Parameter) -> str:
    return _cell(getattr(parameter, "help", None) or "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _anchor(path: str) -> str:
    return path.replace(" ", "-")
