"""Fetch documents from the web, with checked addresses, size limits and conditional requests."""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from http.client import responses
from ipaddress import ip_address
from typing import Any

import httpx

from lorebind_config.dates import date_of
from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.document_sizes import DEFAULT_MAX_BYTES, SizeLimit
from lorebind_config.errors import SourceError
from lorebind_knowledge.resilience.failures import Failure, http_date, retry_after
from lorebind_knowledge.resilience.retries import Retries
from lorebind_knowledge.sources.base import Content, public_address
from lorebind_knowledge.sources.web.addresses import AddressPolicy
from lorebind_knowledge.sources.web.bodies import (
    ACCEPT_ENCODING,
    conditions,
    read_body,
    version_of,
)

_RETRY = RetryConfig(attempts=3, backoff_ms=1000, max_backoff_ms=600_000)
_CONNECT_SECONDS = 10
"""For each address of a host."""
_MOST_ADDRESSES = 4

_REDIRECTS = (301, 302, 303, 307, 308)
_TRANSIENT = (429, 502, 503, 504)
_HIGHEST_PORT = 65535
_OWN_HEADERS = ("host", "accept-encoding", "connection", "content-length", "transfer-encoding")


class _TransientError(SourceError):
    """A failure that a retry may fix."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.failure = Failure("again", wait=wait)


@dataclass(frozen=True, slots=True)
class _Hop:
    """One request of a fetch: its address, its name in messages, and the headers to send."""

    url: httpx.URL
    document: str
    """The fetched address as messages name it."""
    name: str
    host: str
    """The host as messages name it."""
    headers: Mapping[str, str]
    conditions: Mapping[str, str]


class Fetcher:
    """A client that fetches documents with http and https.

    It is safe to share among tasks, threads and event loops.

    For each request, including those of redirects, the host name is resolved once, its addresses
    are checked, and only an address that passed is connected to. Proxies from environment variables
    are ignored, because they could connect to addresses that were not checked.
    """

    def __init__(
        self,
        *,
        timeout_seconds: float = 30,
        max_redirects: int = 3,
        allow: Iterable[str] = (),
        headers: Mapping[str, Any] | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_scan_bytes: int = 0,
    ) -> None:
        """Create a fetcher.

        Args:
            timeout_seconds: for a document as a whole, including redirects, retries and pauses.
            max_redirects: maximum number of redirects to follow per document.
            allow: see `AddressPolicy`.
            headers: sent to the origin of the fetched address, but not to other origins after
                redirects.
            max_bytes: maximum size of a document after decompression.
            max_scan_bytes: the same for a PDF or an image, see `SizeLimit`.

        Raises:
            SourceError: an entry of `allow` or a header is invalid.
        """
        self._timeout_seconds = timeout_seconds
        self._max_redirects = max_redirects
        self._policy = AddressPolicy(allow)
        self._headers = _checked(headers or {})
        self._limit = SizeLimit(max_bytes, max_scan_bytes)

    async def fetch(self, address: str, version: str = "", *, name: str = "") -> Content | None:
        """Return the document at an address, or None if it has not changed since the version.

        Args:
            address: an http or https address; a user and password in it are sent as basic
                authentication.
            version: the version of the last `Content`; empty to fetch the document in any case.
            name: the address as messages show it; by default the address without its secrets. Parts
                of the address that the name omits do not appear in messages or logs. Neither do
                headers, because servers may repeat the address in them.

        Raises:
            SourceError: the document cannot be fetched, for whatever reason.
        """
        name = name or public_address(address)
        url = _parsed(address, name)
        with nullcontext() if name == address and not self._headers else suppressed_logs():
            return await self._fetch(url, name, version)

    async def _fetch(self, url: httpx.URL, name: str, version: str) -> Content | None:
        def check_time(error: _TransientError, wait: float) -> None:
            if asyncio.get_running_loop().time() + wait >= (limit.when() or 0):
                raise error  # says more than that the time is over

        retries = Retries(
            limits=_RETRY,
            on=_TransientError,
            classify=lambda error: error.failure,
            before_wait=check_time,
        )
        try:
            async with asyncio.timeout(self._timeout_seconds) as limit:
                return await retries.call(lambda: self._follow(url, name, version))
        except TimeoutError as error:
            raise SourceError(f"{name}: took longer than {self._timeout_seconds:g} s") from error

    async def _follow(self, url: httpx.URL, name: str, version: str) -> Content | None:
        start, first_headers = _origin(url), {**_basic_auth(url), **self._headers}
        hidden, hop_name = name != public_address(str(url)), name
        hidden_host = url.host if hidden and url.host not in name.lower() else None
        for _ in range(self._max_redirects + 1):
            url = url.copy_with(userinfo=b"")
            # Headers can be secrets that only the first host should see.
            headers = first_headers if _origin(url) == start else {}
            host = "its host" if url.host == hidden_host else f"the host {_host(url)!r}"
            hop = _Hop(url, name, hop_name, host, headers, conditions(version, url))
            answer = await self._ask(hop)
            if not isinstance(answer, str):
                return answer
            try:
                url = url.join(answer)
            except (httpx.InvalidURL, ValueError) as error:
                raise SourceError(f"{hop_name}: redirects to an invalid address") from error
            # If the name hides a part of the address, hide that part in redirects too.
            place = f" to {public_address(_origin(url) if hidden else str(url))}"
            hop_name = f"{name} (redirected{'' if url.host == hidden_host else place})"
            url = _parsed(str(url), hop_name)
        raise SourceError(f"{name}: exceeds the limit of redirects, which is {self._max_redirects}")

    async def _ask(self, hop: _Hop) -> Content | str | None:
        """Return the document, None if it has not changed, or the address of a redirect."""
        addresses = await self._resolve(hop)
        try:
            async with _client() as client:
                response = await _send(client, addresses, hop)
                try:
                    return await self._understand(response, hop)
                finally:
                    await response.aclose()
        except httpx.LocalProtocolError as error:  # its message quotes the headers
            raise SourceError(f"{hop.name}: a header cannot be sent as it is") from error
        except httpx.TransportError as error:
            message = str(error) or type(error).__name__
            raise _TransientError(f"{hop.name}: cannot be fetched: {message}") from error
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise SourceError(f"{hop.name}: cannot be fetched: {error}") from error

    async def _resolve(self, hop: _Hop) -> list[str]:
        """Return the addresses of the host that may be reached."""
        host = _host(hop.url)
        loop = asyncio.get_running_loop()
        try:
            entries = await loop.getaddrinfo(host, hop.url.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            kind = _TransientError if error.errno == socket.EAI_AGAIN else SourceError
            raise kind(f"{hop.name}: {hop.host} was not found") from error
        except (OSError, UnicodeError, OverflowError) as error:
            raise SourceError(f"{hop.name}: {hop.host} cannot be looked up") from error
        addresses = list(dict.fromkeys(str(ip_address(entry[4][0])) for entry in entries))
        permitted = [address for address in addresses if self._policy.permits(host, address)]
        if not permitted:
            raise SourceError(
                f"{hop.name}: {hop.host} is not at a public address; "
                "to allow it anyway, add it or its address to fetch.allow"
            )
        return permitted[:_MOST_ADDRESSES]

    async def _understand(self, response: httpx.Response, hop: _Hop) -> Content | str | None:
        status, headers = response.status_code, response.headers
        if status == HTTPStatus.NOT_MODIFIED and hop.conditions:
            return None
        if status in _REDIRECTS and "location" in headers:
            return str(headers["location"])
        if status not in (HTTPStatus.OK, HTTPStatus.NON_AUTHORITATIVE_INFORMATION):
            message = f"{hop.name}: returned {status} {responses.get(status, '')}".rstrip()
            if status in _TRANSIENT:
                raise _TransientError(message, retry_after(headers))
            raise SourceError(message)
        encoding = headers.get("content-encoding", "")
        media_type = headers.get("content-type", "").strip().lower()
        limit = self._limit.of(hop.document, media_type)
        body = await read_body(response.aiter_raw(), encoding, limit, hop.name)
        if not body:
            raise SourceError(f"{hop.name}: is empty")
        changed = http_date(headers.get("last-modified", ""))
        modified = "" if changed is None else date_of(changed)
        return Content(body, media_type, version_of(hop.url, headers), modified=modified)


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _checked(headers: Mapping[str, Any]) -> dict[str, str]:
    """Check headers and convert values to strings. Messages omit values, which may be secret."""
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or name.lower() in _OWN_HEADERS:
            raise SourceError(f"{name!r} under fetch.headers cannot be set")
        text = str(value) if isinstance(value, str | int) else ""
        if isinstance(value, bool) or not re.fullmatch(r"[!-~]([\t -~]*[!-~])?", text):
            raise SourceError(
                f"the header {name!r} under fetch.headers is not a line of ASCII text"
            )
        checked[name] = text
    return checked


def _client() -> httpx.AsyncClient:
    """Return a client for one request; it follows no redirects by itself."""
    # Without proxies of the environment: they look up hosts themselves, and so can reach addresses
    # that are not allowed.
    return httpx.AsyncClient(
        verify=_ssl_context(),
        trust_env=False,
        timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
    )


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    """Create the context once, because reading the certificates takes longer than a request."""
    return httpx.create_ssl_context()


async def _send(client: httpx.AsyncClient, addresses: list[str], hop: _Hop) -> httpx.Response:
    """Send the request to the first address that accepts a connection; the body is not read."""
    headers = httpx.Headers({"User-Agent": "lorebind", "Accept": "*/*"})
    headers.update(hop.headers)
    headers.update(hop.conditions)
    headers.update({"Host": hop.url.netloc.decode("ascii"), "Accept-Encoding": ACCEPT_ENCODING})
    failure = httpx.ConnectError("there is no address")
    for address in addresses:
        # To the address that was checked: the name of the host may stand for another one by now.
        request = client.build_request(
            "GET",
            hop.url.copy_with(host=address),
            headers=headers,
            extensions={"sni_hostname": _host(hop.url)},
        )
        try:
            return await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = httpx.ConnectError(str(error) or "the connection timed out")
            failure.__cause__ = error
    raise failure


_LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2")
"""httpx logs each address at INFO, httpcore the headers of each response at DEBUG."""

_suppresses = ContextVar("suppresses", default=False)


@contextmanager
def suppressed_logs() -> Iterator[None]:
    """Suppress the HTTP client's logs for this task and for tasks that it starts."""
    _listen()
    token = _suppresses.set(True)
    try:
        yield
    finally:
        _suppresses.reset(token)


@functools.cache
def _listen() -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_passes)


def _passes(record: logging.LogRecord) -> bool:
    return not _suppresses.get()


def _parsed(address: str, name: str) -> httpx.URL:
    """Parse an address to fetch. Its fragment is removed, because it is never sent to servers.

    Raises:
        SourceError: it is not a valid http or https address. The message shows `name`, not the
            address.
    """
    try:
        url = httpx.URL(address).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError) as error:
        raise SourceError(f"{name}: is not a valid web address") from error
    if (url.port or 0) > _HIGHEST_PORT:
        raise SourceError(f"{name}: is not a valid web address: {url.port} is not a port")
    if url.scheme not in ("http", "https") or not url.host:
        raise SourceError(f"{name}: is not an http or https address")
    return url


def _origin(url: httpx.URL) -> str:
    """Return scheme, host and port, which decide whether headers are sent."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _basic_auth(url: httpx.URL) -> dict[str, str]:
    """Return the header for the user and password of an address; empty if it has none."""
    if not url.userinfo:
        return {}
    pair = f"{url.username}:{url.password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
