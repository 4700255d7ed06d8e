"""Which `Host` and `Origin` a request may name, so that no web page can call the server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lorebind.server.problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.datastructures import Headers

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Hosts:
    """The names under which the server is called."""

    def __init__(self, names: Collection[str]) -> None:
        """
        Args:
            names: beside those of loopback; `*` is any.
        """
        self._names = {name.lower() for name in (*LOOPBACK, *names)}

    def check(self, headers: Headers) -> None:
        """
        Raises:
            ProblemError: the host is another's, or a web page of another host calls.
        """
        named = headers.getlist("host")
        if len(named) != 1:
            raise ProblemError("host_refused", "send one Host header")
        if "*" not in self._names and _hostname(named[0]) not in self._names:
            detail = "the server is not known under this Host; add it to `server: {hosts: […]}`"
            raise ProblemError("host_refused", detail)
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != named[0].lower():
            raise ProblemError("origin_refused", "web pages of other hosts may not call the server")


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
