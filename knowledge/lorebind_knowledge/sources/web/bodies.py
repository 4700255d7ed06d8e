"""Bodies of responses: read within limits, and only if they have changed."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from lorebind_config.document_sizes import too_large
from lorebind_config.errors import SourceError
from lorebind_config.namespace import digest
from lorebind_knowledge.resilience.failures import http_date

if TYPE_CHECKING:
    import httpx

    from lorebind_config.document_sizes import Limit

ACCEPT_ENCODING = "gzip"
"""The content encoding that can be decompressed piece by piece with a limit on the output."""

_GZIP = ("gzip", "x-gzip")
_ZLIB_OF_GZIP = 31


async def read_body(chunks: AsyncIterator[bytes], encoding: str, limit: Limit, name: str) -> bytes:
    """Return the decoded body of a response.

    Args:
        chunks: the body as it is received.
        encoding: the value of Content-Encoding; empty if there is none.
        limit: maximum size after decompression.
        name: the document as messages name it.

    Raises:
        SourceError: the limit is exceeded, and the rest is not read; or the body does not match
            its Content-Encoding, or has one that was not requested.
    """
    encoding = encoding.strip().lower()
    if encoding not in ("", "identity", *_GZIP):
        raise SourceError(f"{name}: is encoded as {encoding[:40]!r}, which was not requested")
    stream = _Gunzip(name) if encoding in _GZIP else None
    body = bytearray()
    async for chunk in chunks:
        # A byte above the limit shows that there is more.
        body += stream.feed(chunk, limit.size + 1 - len(body)) if stream else chunk
        if len(body) > limit.size:
            raise too_large(name, limit)
    if stream and body and not stream.complete:
        raise SourceError(f"{name}: ends in the middle of its gzip data")
    return bytes(body)


class _Gunzip:
    """A decompressor of gzip data with one or several members, up to a size limit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._member = zlib.decompressobj(_ZLIB_OF_GZIP)

    @property
    def complete(self) -> bool:
        return self._member.eof

    def feed(self, data: bytes, room: int) -> bytes:
        """Return the decompressed data, cut off at `room` bytes, which is at least 1."""
        out = bytearray()
        while data and len(out) < room:
            if self._member.eof:
                self._member = zlib.decompressobj(_ZLIB_OF_GZIP)
            try:
                out += self._member.decompress(data, room - len(out))
            except zlib.error as error:
                raise SourceError(
                    f"{self._name}: is not valid gzip data, contrary to its header"
                ) from error
            data = self._member.unconsumed_tail or self._member.unused_data
        return bytes(out)


def version_of(url: httpx.URL, headers: httpx.Headers) -> str:
    """Return a version from ETag and Last-Modified, bound to the address.

    Empty if the response has neither.
    """
    etag, modified = headers.get("etag", ""), headers.get("last-modified", "")
    changed, answered = http_date(modified), http_date(headers.get("date", ""))
    # A document can change again within the second of its date and keep that date.
    if changed is None or answered is None or changed >= answered:
        modified = ""
    validators = [text if text.isascii() else "" for text in (etag, modified)]
    return json.dumps([digest(str(url)), *validators]) if any(validators) else ""


def conditions(version: str, url: httpx.URL) -> dict[str, str]:
    """Return the headers of a request for a document only if it changed.

    Returns no headers if the version belongs to a different address, for example after a redirect
    changed, or to another type of source.
    """
    try:
        place, etag, modified = json.loads(version)
    except (ValueError, TypeError):
        return {}
    if place != digest(str(url)):
        return {}
    headers = {"If-None-Match": etag, "If-Modified-Since": modified}
    return {header: value for header, value in headers.items() if value}
