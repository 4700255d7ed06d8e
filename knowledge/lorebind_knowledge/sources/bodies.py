"""The body of an HTTP answer: received and decompressed up to a limit, and never beyond it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ACCEPT_ENCODING = "gzip"
"""The one that can be decompressed bit by bit with a bound on what comes out."""

_GZIP = ("gzip", "x-gzip")
_ZLIB_OF_GZIP = 31


class TooLargeError(Exception):
    """There is more than the limit."""


class EncodingError(Exception):
    """The body is not what its Content-Encoding says, or is encoded in a way nobody asked for."""


async def read_body(chunks: AsyncIterator[bytes], encoding: str, limit: int) -> bytes:
    """A body as it is without its content encoding.

    Args:
        chunks: the body as it comes.
        encoding: the value of Content-Encoding; empty when there is none.
        limit: the most bytes, once decompressed.

    Raises:
        TooLargeError: as soon as there is more; the rest is not asked for.
        EncodingError: when it cannot be decoded.
    """
    encoding = encoding.strip().lower()
    if encoding not in ("", "identity", *_GZIP):
        raise EncodingError(f"is encoded as {encoding[:40]!r}, which was not asked for")
    stream = _Gunzip() if encoding in _GZIP else None
    body = bytearray()
    async for chunk in chunks:
        body += stream.feed(chunk, limit + 1 - len(body)) if stream else chunk
        if len(body) > limit:
            raise TooLargeError
    if stream and body and not stream.complete:
        raise EncodingError("ends in the middle of its gzip data")
    return bytes(body)


class _Gunzip:
    """Decompresses gzip, of several members too, at most as much as there is room for."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_ZLIB_OF_GZIP)

    @property
    def complete(self) -> bool:
        return self._member.eof

    def feed(self, data: bytes, room: int) -> bytes:
        """What the data gives, cut off at `room` bytes, at least 1."""
        out = bytearray()
        while data and len(out) < room:
            if self._member.eof:
                self._member = zlib.decompressobj(_ZLIB_OF_GZIP)
            try:
                out += self._member.decompress(data, room - len(out))
            except zlib.error as error:
                raise EncodingError("is not the gzip data that it says it is") from error
            data = self._member.unconsumed_tail or self._member.unused_data
        return bytes(out)
