"""The one way to documents on the web: guarded, bounded, and sparing with what did not change."""

from __future__ import annotations

import asyncio
import functools
import random
import re
import socket
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import httpx

from lorebind_knowledge.declarations.sources import DEFAULT_MAX_BYTES
from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.sources.addresses import AddressPolicy
from lorebind_knowledge.sources.base import Content
from lorebind_knowledge.sources.bodies import (
    ACCEPT_ENCODING,
    EncodingError,
    TooLargeError,
    read_body,
)
from lorebind_knowledge.sources.conditional import conditions, seconds, version_of
from lorebind_knowledge.sources.limits import too_large
from lorebind_knowledge.sources.silence import silence
from lorebind_knowledge.sources.web_address import basic_auth, origin, parsed, shown

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping

_TRIES = 3
_FIRST_PAUSE = 0.5
"""Seconds, give or take half of it; the second pause is twice as long."""
_CONNECT_SECONDS = 10
"""For each of the addresses that a host has."""
_MOST_ADDRESSES = 4

_REDIRECTS = (301, 302, 303, 307, 308)
_TRANSIENT = (429, 502, 503, 504)
_OWN_HEADERS = ("host", "accept-encoding", "connection", "content-length", "transfer-encoding")


class _TransientError(SourceError):
    """May be gone at the next try; `pause` is the seconds that the server asks for, if it does."""

    def __init__(self, message: str, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


@dataclass(frozen=True, slots=True)
class _Hop:
    """One request of a fetch: where to, what messages call it, and what was known before."""

    url: httpx.URL
    name: str
    host: str
    """What messages call its host."""
    headers: Mapping[str, str]
    conditions: Mapping[str, str]


class Fetcher:
    """Fetches documents by http and https. Safe to share among tasks, threads and event loops.

    A host's name is resolved once for each request, its addresses are judged, and the connection
    is made to one that passed; redirects go the same way. Proxies named by the environment are not
    used: they would connect to what was not judged here.
    """

    def __init__(
        self,
        *,
        timeout_seconds: float = 30,
        max_redirects: int = 3,
        allow: Iterable[str] = (),
        headers: Mapping[str, Any] | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """
        Args:
            timeout_seconds: for a document as a whole: redirects, tries and pauses included.
            max_redirects: the most that are followed for a document.
            allow: see `AddressPolicy`.
            headers: sent to the origin of the address fetched, not to where it redirects.
            max_bytes: the size of the largest document, decompressed.

        Raises:
            SourceError: for an entry of `allow` or a header that cannot be.
        """
        self._timeout_seconds = timeout_seconds
        self._max_redirects = max_redirects
        self._policy = AddressPolicy(allow)
        self._headers = _checked(headers or {})
        self._max_bytes = max_bytes

    async def fetch(self, address: str, version: str = "", *, name: str = "") -> Content | None:
        """The document at an address, None when it is still what it was at that version.

        Args:
            address: http or https; a user and password in it are sent as basic authentication.
            version: the version of the last `Content`, empty to have the document anyway.
            name: what messages call it; by default the address without its secrets. What it does
                not say of the address is said nowhere, and not logged; nor are headers, which
                servers may repeat.

        Raises:
            SourceError: when it cannot be had, for whatever reason.
        """
        name = name or shown(address)
        url = parsed(address, name)
        with nullcontext() if name == address and not self._headers else silence():
            return await self._fetch(url, name, version)

    async def _fetch(self, url: httpx.URL, name: str, version: str) -> Content | None:
        try:
            async with asyncio.timeout(self._timeout_seconds) as limit:
                for attempt in range(1, _TRIES):
                    try:
                        return await self._follow(url, name, version)
                    except _TransientError as error:
                        pause = _pause(attempt) if error.pause is None else error.pause
                        if asyncio.get_running_loop().time() + pause >= (limit.when() or 0):
                            raise
                    await asyncio.sleep(pause)
                return await self._follow(url, name, version)
        except TimeoutError as error:
            raise SourceError(f"{name}: took longer than {self._timeout_seconds:g} s") from error

    async def _follow(self, url: httpx.URL, name: str, version: str) -> Content | None:
        start, own = origin(url), {**basic_auth(url), **self._headers}
        hidden, hop_name = name != shown(str(url)), name
        hidden_host = url.host if hidden and url.host not in name.lower() else None
        for _ in range(self._max_redirects + 1):
            url = url.copy_with(userinfo=b"")
            headers = own if origin(url) == start else {}
            host = "its host" if url.host == hidden_host else f"the host {_host(url)!r}"
            hop = _Hop(url, hop_name, host, headers, conditions(version, url))
            answer = await self._ask(hop)
            if not isinstance(answer, str):
                return answer
            try:
                url = url.join(answer)
            except (httpx.InvalidURL, ValueError) as error:
                raise SourceError(f"{hop_name}: redirects to what is no address") from error
            # A name that hides a part of the address hides it in what it redirects to.
            place = f" to {shown(origin(url) if hidden else str(url))}"
            hop_name = f"{name} (redirected{'' if url.host == hidden_host else place})"
            url = parsed(str(url), hop_name)
        raise SourceError(f"{name}: redirects more often than {self._max_redirects} times")

    async def _ask(self, hop: _Hop) -> Content | str | None:
        """The document, None if it has not changed, or the address that it redirects to."""
        addresses = await self._resolve(hop)
        try:
            async with _client(addresses) as client:
                response = await _send(client, addresses, hop)
                try:
                    return await self._understand(response, hop)
                finally:
                    await response.aclose()
        except httpx.LocalProtocolError as error:  # its words quote the headers
            raise SourceError(f"{hop.name}: a header cannot be sent as it is") from error
        except httpx.TransportError as error:
            said = str(error) or type(error).__name__
            raise _TransientError(f"{hop.name}: cannot be fetched: {said}") from error
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise SourceError(f"{hop.name}: cannot be fetched: {error}") from error

    async def _resolve(self, hop: _Hop) -> list[str]:
        """The addresses of the host that may be reached."""
        host = _host(hop.url)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, hop.url.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            kind = _TransientError if error.errno == socket.EAI_AGAIN else SourceError
            raise kind(f"{hop.name}: {hop.host} cannot be found") from error
        except (OSError, UnicodeError, OverflowError) as error:
            raise SourceError(f"{hop.name}: {hop.host} cannot be looked up") from error
        addresses = list(dict.fromkeys(str(ip_address(entry[4][0])) for entry in found))
        permitted = [address for address in addresses if self._policy.permits(host, address)]
        if not permitted:
            raise SourceError(
                f"{hop.name}: {hop.host} is not at a public address; "
                "if it may be reached all the same, name it or its address under fetch.allow"
            )
        return permitted[:_MOST_ADDRESSES]

    async def _understand(self, response: httpx.Response, hop: _Hop) -> Content | str | None:
        status, headers = response.status_code, response.headers
        if status == HTTPStatus.NOT_MODIFIED and hop.conditions:
            return None
        if status in _REDIRECTS and "location" in headers:
            return str(headers["location"])
        if status not in (HTTPStatus.OK, HTTPStatus.NON_AUTHORITATIVE_INFORMATION):
            message = f"{hop.name}: answered {_phrase(status)}"
            if status in _TRANSIENT:
                raise _TransientError(message, _retry_after(headers))
            raise SourceError(message)
        encoding = headers.get("content-encoding", "")
        try:
            body = await read_body(response.aiter_raw(), encoding, self._max_bytes)
        except TooLargeError as error:
            raise too_large(hop.name, self._max_bytes) from error
        except EncodingError as error:
            raise SourceError(f"{hop.name}: {error}") from error
        if not body:
            raise SourceError(f"{hop.name}: is empty")
        media_type = headers.get("content-type", "").strip().lower()
        return Content(body, media_type, version_of(hop.url, headers))


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _checked(headers: Mapping[str, Any]) -> dict[str, str]:
    """Headers as they can be sent. What they say may be a secret, so messages only name them."""
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or name.lower() in _OWN_HEADERS:
            raise SourceError(f"{name!r} under fetch.headers cannot be set")
        text = str(value) if isinstance(value, str | int) else ""
        if isinstance(value, bool) or not re.fullmatch(r"[!-~]([\t -~]*[!-~])?", text):
            raise SourceError(f"the header {name!r} under fetch.headers is no line of ASCII text")
        checked[name] = text
    return checked


def _client(addresses: list[str]) -> httpx.AsyncClient:
    """A client for one request, which connects to none but these addresses."""
    from httpx_secure import httpx_ssrf_protection

    client = httpx.AsyncClient(
        verify=_ssl_context(),
        trust_env=False,
        timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
    )
    return httpx_ssrf_protection(
        client,
        check_globally_reachable=False,  # `AddressPolicy` has judged, and knows what is allowed
        custom_validator=lambda _, address, __: str(address) in addresses,
    )


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than many a request."""
    return httpx.create_ssl_context()


async def _send(client: httpx.AsyncClient, addresses: list[str], hop: _Hop) -> httpx.Response:
    """The head of the answer, from the first address that can be connected to."""
    headers = httpx.Headers({"User-Agent": "lorebind", "Accept": "*/*"})
    headers.update(hop.headers)
    headers.update(hop.conditions)
    headers.update({"Host": hop.url.netloc.decode("ascii"), "Accept-Encoding": ACCEPT_ENCODING})
    failure = httpx.ConnectError("there is no address")
    for address in addresses:
        request = client.build_request(
            "GET",
            hop.url.copy_with(host=address),
            headers=headers,
            extensions={"sni_hostname": _host(hop.url)},
        )
        try:
            return await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = httpx.ConnectError(str(error) or "the connection took too long")
            failure.__cause__ = error
    raise failure


def _retry_after(headers: httpx.Headers) -> float | None:
    value = headers.get("retry-after", "").strip()
    if re.fullmatch("[0-9]{1,9}", value):
        return float(value)
    when, now = seconds(value), seconds(headers.get("date", ""))
    return max(0.0, when - now) if when is not None and now is not None else None


def _pause(attempt: int) -> float:
    return float(_FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
