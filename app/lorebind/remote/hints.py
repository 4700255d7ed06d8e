"""The commands in the messages of a server, with the options that name this server."""

from __future__ import annotations

import re
import shlex
from typing import Any

_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[\w@%+=:./-])+"
"""A word as `shlex.quote` writes it."""
_COMMAND = re.compile(
    rf"\blorebind knowledge (?:ingest|reindex) [\w.-]*\w"
    rf"(?: --(?:workflow|tenant) {_VALUE}| --[a-z-]+)*"
)
"""See `Namespace.command`."""


class Hints:
    """Adds `--server`, and `--tenant` if the user gave it, to the commands in messages."""

    def __init__(self, url: str, tenant: str | None) -> None:
        """
        Args:
            url: the server, as the user named it.
            tenant: the tenant that the user named; None if there is none.
        """
        self._server = f" --server {shlex.quote(url)}"
        self._tenant = "" if tenant is None else f" --tenant {shlex.quote(tenant)}"
        self.options = self._server + self._tenant
        """The options with which a command finds the same server and tenant."""

    def reword(self, text: str) -> str:
        """Return a message whose commands work on this machine."""
        return _COMMAND.sub(self._with_options, text)

    def reword_problem(self, document: dict[str, Any]) -> dict[str, Any]:
        """Do the same for all messages of a problem document."""
        texts = (name for name in ("detail", "command") if isinstance(document.get(name), str))
        reworded: dict[str, Any] = {name: self.reword(document[name]) for name in texts}
        if errors := document.get("errors"):
            reworded["errors"] = [
                {name: self.reword(str(text)) for name, text in error.items()} for error in errors
            ]
        return document | reworded

    def reword_error(self, of: dict[str, Any]) -> None:
        """Do the same for the `error` of a task, a thread or an event."""
        error = of.get("error")
        if isinstance(error, str):
            of["error"] = self.reword(error)
        elif isinstance(error, dict) and isinstance(error.get("message"), str):
            error["message"] = self.reword(error["message"])

    def _with_options(self, command: re.Match[str]) -> str:
        names_tenant = " --tenant " in command[0]
        return command[0] + (self._server if names_tenant else self.options)
