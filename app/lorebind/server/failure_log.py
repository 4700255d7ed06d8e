"""The log of mistakes: with the traceback, and without the values of variables."""

from __future__ import annotations

import logging
import traceback
from functools import cached_property
from typing import TYPE_CHECKING

from lorebind_knowledge.configuration.template_checks import texts
from lorebind_knowledge.configuration.templates import mentions, shown
from lorebind_knowledge.redaction import without

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import LoadedProject

log = logging.getLogger("lorebind.server")


class FailureLog:
    """Logs what nobody expected, to the logger `lorebind.server`."""

    def __init__(self, config: LoadedProject) -> None:
        self._config = config

    def __call__(self, said: str, error: BaseException) -> None:
        """Log an error that was caught.

        Args:
            said: what failed.
            error: its words may quote values of variables, which are taken out.
        """
        lines = "".join(traceback.format_exception(error)).rstrip()
        log.error("%s\n%s", said, without(lines, self._values))

    @cached_property
    def _values(self) -> dict[str, str]:
        """The values of all variables that the project names, each with its template."""
        config, found = self._config, {}
        for top in (config.project, *config.agents.values(), *config.workflows.values()):
            for _, text in texts(top.written()):
                for scope, *name in mentions(text):
                    if scope in ("env", "secrets") and (
                        value := config.environment.lookup(".".join(name))
                    ):
                        found[value] = shown((scope, *name))
        return found
