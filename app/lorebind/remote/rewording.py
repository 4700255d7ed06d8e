"""Reword errors for the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lorebind_config.errors import ConfigurationError, LorebindError, NotFoundError


class Rewording:
    """A context manager that replaces requests with commands in the errors of its block."""

    def __init__(self, commands: Mapping[str, Callable[[], str]]) -> None:
        """
        Args:
            commands: for each request, a function that returns the equivalent command.
        """
        self._commands = commands

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ConfigurationError):
            self._refuse_tasks(error)
        elif isinstance(error, LorebindError):
            text = str(error)
            for request, command in self._commands.items():
                if request in text:
                    text = text.replace(request, command())
            error.args = (text,)

    def _refuse_tasks(self, error: ConfigurationError) -> None:
        """Raise an error for the first unknown task of `--interrupt-before`, as `Project` does."""
        for problem in error.problems:
            if problem.file.startswith("/interrupt_before"):
                raise NotFoundError(f"{problem.message}; {problem.hint}") from None
