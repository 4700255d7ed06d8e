"""Log unexpected errors with their traceback, and without the values of variables."""

from __future__ import annotations

import json
import logging
import traceback
from functools import cached_property
from typing import TYPE_CHECKING

from lorebind_knowledge.configuration.template_checks import texts
from lorebind_knowledge.configuration.templates import mentions, shown
from lorebind_knowledge.redaction import without

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_knowledge.configuration import LoadedProject

log = logging.getLogger("lorebind.server")

_SHORT = 4


class FailureLog:
    """Logs unexpected errors to the logger `lorebind.server`."""

    def __init__(self, config: LoadedProject) -> None:
        self._config = config

    def __call__(self, said: str, error: BaseException, sent: Iterable[str] = ()) -> None:
        """Log an error that was caught.

        Args:
            said: the operation that failed.
            error: the error; values of variables are removed from its text.
            sent: texts from the caller, which are removed too.
        """
        # Longest first, because one text may contain another. Short texts occur in ordinary words.
        hidden = sorted((one for one in sent if len(one) >= _SHORT), key=len, reverse=True)
        parts = [
            _without_sent(without(part, self._values), hidden)
            for part in traceback.format_exception(error)
        ]
        log.error("%s\n%s", said, "".join(parts).rstrip())

    @cached_property
    def _values(self) -> dict[str, str]:
        """The values of all variables that the project uses, each with its template."""
        config, found = self._config, {}
        for top in (config.project, *config.agents.values(), *config.workflows.values()):
            for _, text in texts(top.written()):
                for scope, *name in mentions(text):
                    if scope in ("env", "secrets") and (
                        value := config.environment.lookup(".".join(name))
                    ):
                        found[value] = shown((scope, *name))
        return found


def _without_sent(part: str, sent: Iterable[str]) -> str:
    """Remove the caller's texts from a part of a traceback, except from lines that name code."""
    if part.lstrip(" |").startswith(("File ", "Traceback ")):
        return part
    for text in sent:
        for form in (text, repr(text)[1:-1], json.dumps(text)[1:-1]):
            part = part.replace(form, "[request]")
    return part
