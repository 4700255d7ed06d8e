"""The options of commands: those that several share, and those of every command."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lorebind_config.errors import UsageError
from lorebind_config.namespace import named_tenant
from lorebind_config.namespace import tenant as run_as
from lorebind_config.project_files import PROJECT_FILE

if TYPE_CHECKING:
    from lorebind_knowledge.extensions.logging import Level

HERE = "."
"""The default of `--project`."""
_SERVER_VARIABLE = "LOREBIND_SERVER"
_SERVER = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar=_SERVER_VARIABLE,
        help="Use this server instead of a folder: http://…, https://… or unix:/PATH.",
    ),
]
_TENANT = Annotated[
    str | None,
    typer.Option(
        "--tenant", metavar="NAME", help="The tenant whose knowledge and threads are used."
    ),
]
_VERBOSE = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, help="Log events to standard error; -vv logs more."
    ),
]


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
NoVectorsOption = Annotated[
    bool,
    typer.Option(
        "--no-vectors",
        help="Search a folder by words and related words only, which makes the first run about "
        "four times as fast.",
    ),
]
InputsOption = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input of the workflow."),
]
FiltersOption = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="KEY=VALUE", help="A condition on the metadata."),
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


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The server to run a command against."""

    url: str
    tenant: str | None
    """The value of `--tenant`; None uses the server's default."""


current_server: ContextVar[ServerAddress | None] = ContextVar("lorebind_server", default=None)
"""None if the command uses a folder of this machine."""

log_level: ContextVar[Level | None] = ContextVar("lorebind_log_level", default=None)
"""The level from which events are logged; None if the user has not asked for logs."""


def with_server_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--server` to the options of a command."""

    @functools.wraps(command)
    def run(*args: Any, context: typer.Context, server: str | None, **options: Any) -> Any:
        if _is_typed(context, "project"):
            if _is_typed(context, "server"):
                raise UsageError("--server and --project name two projects; omit one of them")
            server = None  # the environment variable applies only without --project
        with ExitStack() as stack:
            if server is not None:
                address = ServerAddress(server, named_tenant())
                stack.callback(current_server.reset, current_server.set(address))
            return command(*args, **options)

    return _with_options(run, command, context=typer.Context, server=_SERVER)


def only_here(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command refuse to run if `LOREBIND_SERVER` names a server and no folder is named.

    It cannot use a server, and would use the data of this machine instead.
    """

    @functools.wraps(command)
    def run(*args: Any, context: typer.Context, **options: Any) -> Any:
        if os.environ.get(_SERVER_VARIABLE) and not _is_typed(context, "project"):
            raise UsageError(
                f"`{context.command_path}` cannot use the server in {_SERVER_VARIABLE}; name a "
                "folder of this machine with --project, or unset the variable"
            )
        return command(*args, **options)

    return _with_options(run, command, context=typer.Context)


def with_shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--tenant` and `--verbose` to the options of a command.

    A command that defines its own `tenant` option keeps it.
    """
    more = {"tenant": _TENANT, "verbose": _VERBOSE}
    if has_tenant := "tenant" in inspect.signature(command).parameters:
        del more["tenant"]

    @functools.wraps(command)
    def run(*args: Any, verbose: int, **options: Any) -> Any:
        tenant = None if has_tenant else options.pop("tenant")
        if options.get("project") == HERE:
            options["project"] = project_above()
        with ExitStack() as stack:
            if verbose:
                from lorebind_knowledge.extensions.logging import write_records

                level: Level = "info" if verbose == 1 else "debug"
                stack.callback(write_records("text", level))
                stack.callback(log_level.reset, log_level.set(level))
            if tenant is not None:
                if not tenant:
                    raise typer.BadParameter("the name is empty", param_hint="--tenant")
                stack.enter_context(run_as(tenant))
            return command(*args, **options)

    return _with_options(run, command, **more)


def _with_options(
    run: Callable[..., Any], command: Callable[..., Any], **more: Any
) -> Callable[..., Any]:
    """Give a wrapper the options of its command, and more options by name."""
    signature = inspect.signature(command, eval_str=True)
    defaults = {"server": None, "tenant": None, "verbose": 0}
    parameters = [
        *signature.parameters.values(),
        *(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, inspect.Parameter.empty),
                annotation=annotation,
            )
            for name, annotation in more.items()
        ),
    ]
    # `inspect` reads the attribute, but type checkers do not know it.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def project_above() -> str:
    """Return the nearest folder with a `lorebind.yaml`, from the current one upwards.

    Only files and folders of this user are considered, because others could put a file into a
    folder that they share, such as `/tmp`. Without such a file, it is the current folder.
    """
    try:
        here = Path.cwd()
    except OSError:  # it was deleted
        return HERE
    if os.path.isfile(here / PROJECT_FILE):
        return HERE
    for folder in (here, *here.parents):
        if not _is_ours(folder):
            break
        if os.path.isfile(file := folder / PROJECT_FILE):
            return os.path.relpath(folder) if _is_ours(file) else HERE
    return HERE


def _is_ours(path: Path) -> bool:
    # Windows has no user ids, and other rights.
    return hasattr(os, "getuid") and path.lstat().st_uid == os.getuid()


def command_group(text: str) -> typer.Typer:
    """Return a group of commands with this help."""
    return typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None, add_completion=False)
