"""The number of values in a JSON text, counted before it is parsed.

Parsing blocks the whole process, and values can take a hundred times the memory of their text.
"""

from __future__ import annotations

import re
from itertools import islice

from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.lanes import Threads

MOST_VALUES = 100_000
"""Maximum number of keys and values in a request."""

_VALUE = re.compile(rb'"[^"]*"?|[\[{]|[^\s\[\]{}:,"]+')

_counting = Threads()


async def has_too_many_values(text: bytes | bytearray, most: int = MOST_VALUES) -> bool:
    """Return whether a JSON text has more than this number of keys and values."""
    # Each of these is followed by at most one key and one value.
    if 2 * (text.count(b",") + text.count(b"[") + text.count(b"{")) < most:
        return False
    with _counting.lane("read"):
        return await call(_has_more, text, most)


def _has_more(text: bytes | bytearray, most: int) -> bool:
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return next(islice(_VALUE.finditer(unescaped), most, None), None) is not None
