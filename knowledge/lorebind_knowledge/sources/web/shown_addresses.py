"""Parse web addresses strictly, and show them without parts that may be secret."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from lorebind_config.errors import SourceError

if TYPE_CHECKING:
    import httpx


_HIGHEST_PORT = 65535


def without_credentials(address: str) -> str:
    """Return an address, or a template of one, without user, password and fragment."""
    plain = re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@", r"\1", address)
    return plain.partition("#")[0]


def shown(address: str) -> str:
    """Return an address as messages show it: also without its query."""
    place, query, _ = without_credentials(address).partition("?")
    return f"{place}?..." if query else place


def parsed(address: str, name: str) -> httpx.URL:
    """Parse an address to fetch. Its fragment is removed, because it is never sent to servers.

    Raises:
        SourceError: it is not a valid http or https address. The message shows `name`, not the
            address.
    """
    import httpx

    try:
        url = httpx.URL(address).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError) as error:
        raise SourceError(f"{name}: is not a valid web address") from error
    if (url.port or 0) > _HIGHEST_PORT:
        raise SourceError(f"{name}: is not a valid web address: {url.port} is not a port")
    if url.scheme not in ("http", "https") or not url.host:
        raise SourceError(f"{name}: is not an http or https address")
    return url


def origin(url: httpx.URL) -> str:
    """Return scheme, host and port, which decide whether headers are sent."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def basic_auth(url: httpx.URL) -> dict[str, str]:
    """Return the header for the user and password of an address; empty if it has none."""
    if not url.userinfo:
        return {}
    pair = f"{url.username}:{url.password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
