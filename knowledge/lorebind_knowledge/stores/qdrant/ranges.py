"""Ranges as alternatives of texts, for databases that compare texts only for equality.

A number or a date has a key, which is a text of fixed length that sorts like the value. A point
stores every prefix of the key. A range is then a few dozen prefixes: for `$gte`, the key of the
limit, and each prefix of it whose last character is replaced by a higher one. Numbers have keys of
24 bits, and dates are cut to days. A range may therefore include values that are near to its limit
but outside of it.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from lorebind_config.dates import is_date

_CHARACTERS = {"number": "0123456789abcdef", "date": "0123456789"}
_LENGTH_OF_NUMBER = 6
_SIGN = 1 << 63


def prefixes(value: Any) -> list[str]:
    """Return the texts that a point stores for a value, to be found by ranges."""
    kind, key = _key(value)
    return [f"{kind} {key[:length]}" for length in range(len(key) + 1)] if kind else []


def alternatives(sign: str, limit: Any) -> list[str]:
    """Return texts, of which each value that a range includes has at least one.

    Args:
        sign: `$gt`, `$gte`, `$lt` or `$lte`.
        limit: a number or text.
    """
    kind, key = _key(limit)
    if kind == "text":
        return ["text ", "date "]
    characters = _CHARACTERS[kind]
    within = [f"{kind} {key}"]
    for at, character in enumerate(key):
        place = characters.index(character)
        others = characters[place + 1 :] if sign in ("$gt", "$gte") else characters[:place]
        within += [f"{kind} {key[:at]}{other}" for other in others]
    return within


def _key(value: Any) -> tuple[str, str]:
    """Return the kind of a value and its key; an empty kind if it has no order."""
    if isinstance(value, str):
        return ("date", value[:10].replace("-", "")) if is_date(value) else ("text", "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "", ""
    try:
        number = float(value) + 0.0  # not -0.0, which is another number in bits
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    bits = ~bits & (2**64 - 1) if bits & _SIGN else bits | _SIGN
    return "number", f"{bits:016x}"[:_LENGTH_OF_NUMBER]
