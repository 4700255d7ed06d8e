"""The options of every command: the tenant, and the amount of logging."""

from __future__ import annotations

import functools
import inspect
from contextlib import ExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.project_above import HERE, project_above

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.extensions.logging import Level

log_level: ContextVar[Level | None] = ContextVar("lorebind_log_level", default=None)
"""The level from which events are logged; None if the user has not asked for logs."""

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


def with_shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--tenant` and `--verbose` to the options of a command.

    A command that defines its own `tenant` option keeps it.
    """
    own = inspect.signature(command, eval_str=True)
    has_tenant = "tenant" in own.parameters

    @functools.wraps(command)
    def run(*args: Any, verbose: int, **options: Any) -> Any:
        from lorebind_config.namespace import tenant as within

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
                stack.enter_context(within(tenant))
            return command(*args, **options)

    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter("tenant", keyword, default=None, annotation=_TENANT),
        inspect.Parameter("verbose", keyword, default=0, annotation=_VERBOSE),
    ]
    parameters = [*own.parameters.values(), *more[has_tenant:]]
    # `inspect` reads the attribute, but type checkers do not know it.
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
