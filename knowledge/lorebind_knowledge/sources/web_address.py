"""Addresses on the web: read strictly, and shown without what may be a secret."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import SourceError

if TYPE_CHECKING:
    import httpx


def without_credentials(address: str) -> str:
    """An address, or a template of one, without user, password and fragment."""
    plain = re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@", r"\1", address)
    return plain.partition("#")[0]


def shown(address: str) -> str:
    """An address as messages show it: what its query says is left out as well."""
    place, query, _ = without_credentials(address).partition("?")
    return f"{place}?..." if query else place


def parsed(address: str, name: str) -> httpx.URL:
    """An address to fetch; its fragment, which servers never see, is taken off.

    Raises:
        SourceError: when it is not http or https, or no address. It says `name`, not the address.
    """
    import httpx

    try:
        url = httpx.URL(address).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError) as error:
        raise SourceError(f"{name}: is not an address on the web") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise SourceError(f"{name}: is not an address of http or https")
    return url


def origin(url: httpx.URL) -> str:
    """Scheme, host and port: what headers are meant for."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def basic_auth(url: httpx.URL) -> dict[str, str]:
    """The header that says the user and password of an address; nothing if it has none."""
    if not url.userinfo:
        return {}
    pair = f"{url.username}:{url.password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
