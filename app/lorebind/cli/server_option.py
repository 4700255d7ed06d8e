"""`--server`: run the same command against the project on a server."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lorebind_config.errors import UsageError
from lorebind_config.namespace import named_tenant


@dataclass(frozen=True, slots=True)
class GivenServer:
    """The server to run a command against."""

    url: str
    tenant: str | None
    """The value of `--tenant`; None uses the server's default."""


given_server: ContextVar[GivenServer | None] = ContextVar("lorebind_given_server", default=None)
"""None if the command uses a folder of this machine."""

_VARIABLE = "LOREBIND_SERVER"
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_SERVER = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar=_VARIABLE,
        help="Use this server instead of a folder: http://…, https://… or unix:/PATH.",
    ),
]


def with_server_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--server` to the options of a command."""

    @functools.wraps(command)
    def run(*args: Any, context: typer.Context, server: str | None, **options: Any) -> Any:
        if _is_typed(context, "project"):
            if _is_typed(context, "server"):
                raise UsageError("--server and --project name two projects; omit one of them")
            server = None  # the environment variable applies only without --project
        if server is None:
            return command(*args, **options)
        before = given_server.set(GivenServer(server, named_tenant()))
        try:
            return command(*args, **options)
        finally:
            given_server.reset(before)

    server = inspect.Parameter("server", _KEYWORD, default=None, annotation=_SERVER)
    return _with_parameters(run, command, server)


def only_here(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command refuse to run if `LOREBIND_SERVER` names a server and no folder is named.

    It cannot use a server, and would use the data of this machine instead.
    """

    @functools.wraps(command)
    def run(*args: Any, context: typer.Context, **options: Any) -> Any:
        if os.environ.get(_VARIABLE) and not _is_typed(context, "project"):
            raise UsageError(
                f"`{context.command_path}` cannot use the server in {_VARIABLE}; name a folder of "
                "this machine with --project, or unset the variable"
            )
        return command(*args, **options)

    return _with_parameters(run, command)


def _with_parameters(
    run: Callable[..., Any], command: Callable[..., Any], *more: inspect.Parameter
) -> Callable[..., Any]:
    """Give a wrapper the options of its command, the context, and more options."""
    own = inspect.signature(command, eval_str=True)
    context = inspect.Parameter("context", _KEYWORD, annotation=typer.Context)
    parameters = [*own.parameters.values(), context, *more]
    # `inspect` reads the attribute, but type checkers do not know it.
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
