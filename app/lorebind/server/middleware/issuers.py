"""Documents that authorization servers publish, such as metadata that name the issuer."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

import httpx

from lorebind_config.errors import SourceError

MOST_BYTES = 1024 * 1024
_FETCH_SECONDS = 8.0


def parts_of(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if its host or port is not valid."""
    with suppress(ValueError):
        parts = urlsplit(url)
        _ = parts.port  # only reading it checks it
        return parts
    return None


async def fault_of(issuer: str) -> str | None:
    """Return why no token can be of this issuer, or why clients cannot log in there.

    Its metadata (RFC 8414, or OpenID Connect) name the same URL as the claim `iss` of its tokens.

    Returns:
        The reason, or None if all is well.
    """
    if (url := parts_of(issuer)) is None:
        return "it is not a valid URL"
    host, path = f"{url.scheme}://{url.netloc}", url.path.rstrip("/")
    oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
    fault = ""
    for place in dict.fromkeys(
        (f"{host}{oauth}{path}", f"{host}{openid}{path}", f"{host}{path}{openid}")
    ):
        try:
            named = json.loads(await fetch(place))["issuer"]
        except SourceError as error:
            fault = f"its metadata cannot be read: {error}"
        except (ValueError, LookupError, TypeError):
            fault = "its metadata name no issuer"
        else:
            return None if named == issuer else f"its metadata name the issuer {named!r}"
    return fault


async def fetch(url: str) -> bytes:
    """Return the answer of a URL, without following redirects.

    Raises:
        SourceError: there is none, or it is too long.
    """
    body = bytearray()
    try:
        async with (
            asyncio.timeout(_FETCH_SECONDS),
            httpx.AsyncClient() as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise SourceError(f"the answer has the status {response.status_code}")
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MOST_BYTES:
                    raise SourceError(f"they are longer than {MOST_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise SourceError(f"{type(error).__name__}: {error}".rstrip(": ")) from error
    return bytes(body)
