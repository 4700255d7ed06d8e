"""`--server`: run the same command against the project on a server."""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.namespace import named_tenant

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class GivenServer:
    """The server to run a command against."""

    url: str
    tenant: str | None
    """The value of `--tenant`; None uses the server's default."""


given_server: ContextVar[GivenServer | None] = ContextVar("lorebind_given_server", default=None)
"""None if the command uses a folder of this machine."""

_SERVER = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar="LOREBIND_SERVER",
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

    own = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *own.parameters.values(),
        inspect.Parameter("context", keyword, annotation=typer.Context),
        inspect.Parameter("server", keyword, default=None, annotation=_SERVER),
    ]
    # `inspect` reads the attribute, but type checkers do not know it.
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
