"""The host names of the server: which requests name one of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lorebind.server.problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.datastructures import Headers

LOOPBACK = ("localhost", "127.0.0.1", "::1")

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]*)?")
"""A name or an address, with IPv6 in brackets, and an optional port."""


class Hosts:
    """The host names of the server."""

    def __init__(self, names: Collection[str]) -> None:
        """
        Args:
            names: the names in addition to those of loopback; `*` allows any name.
        """
        self._names = {hostname(name) or name.lower() for name in (*LOOPBACK, *names)}

    def check(self, headers: Headers) -> None:
        """Check the host and the origin of a request.

        Raises:
            ProblemError: the host is unknown, or a web page of another host sent the request.
        """
        named = headers.getlist("host")
        if len(named) != 1:
            raise ProblemError("host_refused", "send one Host header")
        if "*" not in self._names and hostname(named[0]) not in self._names:
            detail = "the server does not know this Host; add it to `server: {hosts: […]}`"
            raise ProblemError("host_refused", detail)
        for origin in headers.getlist("origin"):
            if origin.lower().partition("://")[2] != named[0].lower():
                detail = "web pages of other hosts may not call the server"
                raise ProblemError("origin_refused", detail)


def hostname(host: str) -> str:
    """Return the name or address in a Host header, in lower case; empty if there is none."""
    match = _HOST.fullmatch(host.lower())
    return (match[1] or match[2]) if match else ""


def address_of(headers: Headers) -> str:
    """Return the address of the server as the client has named it.

    The server itself speaks plain HTTP; a proxy with TLS is in front of it, except on loopback.
    """
    host = headers.get("host", "")
    return f"{'http' if hostname(host) in LOOPBACK else 'https'}://{host}"
