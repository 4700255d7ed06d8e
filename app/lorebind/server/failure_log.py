"""The log of mistakes: with the traceback, and without the values of variables."""

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
    """Logs what nobody expected, to the logger `lorebind.server`."""

    def __init__(self, config: LoadedProject) -> None:
        self._config = config

    def __call__(self, said: str, error: BaseException, sent: Iterable[str] = ()) -> None:
        """Log an error that was caught.

        Args:
            said: what failed.
            error: its words may quote values of variables, which are taken out.
            sent: texts of the caller, which are taken out too.
        """
        # The longest first, one may hold another. The shortest would be found in other words.
        hidden = sorted((one for one in sent if len(one) >= _SHORT), key=len, reverse=True)
        parts = [
            _without_sent(without(part, self._values), hidden)
            for part in traceback.format_exception(error)
        ]
        log.error("%s\n%s", said, "".join(parts).rstrip())

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


def _without_sent(part: str, sent: Iterable[str]) -> str:
    """A part of a traceback. What code it went through stays, whatever words were sent."""
    if part.lstrip(" |").startswith(("File ", "Traceback ")):
        return part
    for text in sent:
        for form in (text, repr(text)[1:-1], json.dumps(text)[1:-1]):
            part = part.replace(form, "[request]")
    return part
