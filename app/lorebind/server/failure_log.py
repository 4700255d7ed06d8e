"""Log unexpected errors without the values of variables, and outages once."""

from __future__ import annotations

import json
import logging
import traceback
from functools import cached_property
from typing import TYPE_CHECKING

from lorebind_config.checks.template_checks import texts
from lorebind_config.redaction import without
from lorebind_config.templates import as_template, mentions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_config.reading.loaded import LoadedProject

log = logging.getLogger("lorebind.server")

_SHORT = 4
_MOST_TEXTS = 1000
"""Texts of a caller that are looked for one by one; with more, no message is shown."""


class FailureLog:
    """Logs unexpected errors to the logger `lorebind.server`."""

    def __init__(self, config: LoadedProject) -> None:
        self._config = config

    def __call__(self, failure: str, error: BaseException, sent: Iterable[str] = ()) -> None:
        """Log an error that was caught.

        Args:
            failure: the operation that failed.
            error: the error; values of variables are removed from its text.
            sent: texts from the caller, which are removed too. If they are very many, whole
                messages are removed instead, as the event loop waits for this.
        """
        long = {text for text in sent if len(text) >= _SHORT}  # others are in ordinary words
        hidden = _forms(long) if len(long) <= _MOST_TEXTS else None
        parts = [
            _without_sent(without(part, self._values), hidden)
            for part in traceback.format_exception(error)
        ]
        log.error("%s\n%s", failure, "".join(parts).rstrip())

    @cached_property
    def _values(self) -> dict[str, str]:
        """The values of all variables that the project uses, each with its template."""
        config, values = self._config, {}
        for top in (config.project, *config.agents.values(), *config.workflows.values()):
            for _, text in texts(top.written()):
                for scope, *name in mentions(text):
                    if scope in ("env", "secrets") and (
                        value := config.environment.lookup(".".join(name))
                    ):
                        values[value] = as_template((scope, *name))
        return values


def _forms(texts: Iterable[str]) -> list[str]:
    """Return texts as messages show them, longest first, because one may contain another."""
    forms = {form for text in texts for form in (text, repr(text)[1:-1], json.dumps(text)[1:-1])}
    return sorted(forms, key=len, reverse=True)


def _without_sent(part: str, hidden: Iterable[str] | None) -> str:
    """Remove the caller's texts, or all text, from a part of a traceback that names no code."""
    if part.lstrip(" |").startswith(("File ", "Traceback ")):
        return part
    if hidden is None:
        return "[request]\n"
    for form in hidden:
        part = part.replace(form, "[request]")
    return part


class OutageLog:
    """The outages of one part of the server."""

    def __init__(self, failure: str, recovery: str) -> None:
        """
        Args:
            failure: what fails during an outage, such as `the tokens cannot be read`.
            recovery: what works after it.
        """
        self._failure, self._recovery = failure, recovery
        self._lasts = False

    def failed(self, reason: object) -> None:
        """Log that an outage begins, unless it lasts already."""
        if not self._lasts:
            log.error("%s: %s", self._failure, reason)
        self._lasts = True

    def worked(self) -> None:
        """Log that an outage is over, if there was one."""
        if self._lasts:
            log.warning("%s", self._recovery)
        self._lasts = False
