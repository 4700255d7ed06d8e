"""The options that every command takes: whose knowledge it is about, and how much is logged."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOGGERS = ("lorebind", "lorebind_bindings", "lorebind_prompts", "lorebind_knowledge")

_TENANT = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Whose knowledge it is about.")
]
_VERBOSE = Annotated[
    int,
    typer.Option("--verbose", "-v", count=True, help="Log what happens to standard error."),
]


def with_shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with `--tenant` and `--verbose` beside its own options."""

    @functools.wraps(command)
    def run(*args: Any, tenant: str | None, verbose: int, **options: Any) -> Any:
        from lorebind_knowledge.namespace import tenant as within

        with ExitStack() as stack:
            if verbose:
                stack.enter_context(_logging(logging.INFO if verbose == 1 else logging.DEBUG))
            if tenant is not None:
                if not tenant:
                    raise typer.BadParameter("the name is empty", param_hint="--tenant")
                stack.enter_context(within(tenant))
            return command(*args, **options)

    own = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter("tenant", keyword, default=None, annotation=_TENANT),
        inspect.Parameter("verbose", keyword, default=0, annotation=_VERBOSE),
    ]
    parameters = [*own.parameters.values(), *more]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


@contextmanager
def _logging(level: int) -> Iterator[None]:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, old in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(old)


class _OneLine(logging.Formatter):
    """Names of files and documents may hold what terminals act on."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return one_line(super().formatMessage(record))
