"""The address of a server, and a client for it."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from lorebind_config.errors import UsageError

PREFIX = "/api/v0"
_UNIX = "unix:"
_CONNECT_SECONDS, _ANSWER_SECONDS = 10, 60
"""Timeouts in seconds. A server answers within 30; event streams send a comment every 15."""


def client_of(url: str, headers: dict[str, str]) -> httpx.Client:
    """Return an HTTP client for a server.

    Args:
        url: `http://…`, `https://…`, or `unix:` and the path of a socket.
        headers: sent with every request.

    Raises:
        UsageError: the URL is not valid.
    """
    timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
    if url.startswith(_UNIX):
        path = url.removeprefix(_UNIX)
        if not path:
            raise _wrong(url, "the path of the socket is missing")
        transport = httpx.HTTPTransport(uds=path)
        base = f"http://localhost{PREFIX}"
        return httpx.Client(transport=transport, base_url=base, headers=headers, timeout=timeout)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        if parts.username is not None or parts.password is not None:
            raise UsageError("a server's URL must not contain a password; set LOREBIND_TOKEN")
        if parts.scheme not in ("http", "https") or not host:
            raise _wrong(url, "it must begin with http://, https:// or unix:")
        if parts.query or parts.fragment:
            raise _wrong(url, "it must end with the host, port or path")
        base = f"{url.rstrip('/').removesuffix(PREFIX)}{PREFIX}"
        return httpx.Client(base_url=base, headers=headers, timeout=timeout)
    except (ValueError, httpx.InvalidURL) as error:
        if isinstance(error, UsageError):
            raise
        raise _wrong(url, str(error)) from None


def _wrong(url: str, why: str) -> UsageError:
    return UsageError(f"{url!r} is not a valid server URL: {why}")
