"""The values that texts stand for, where a format or a path has only texts."""

from __future__ import annotations

_MOST_DIGITS = 18
"""A longer number is an identifier, and stores cannot hold it as a number."""


def typed(text: str) -> str | int | bool:
    """Return the value of a text: a whole number without leading zeros, true or false; or itself.

    `1.10` is a version and `007` a name as often as they are numbers, so they stay texts. So do
    dates, which metadata stores as texts.
    """
    if text in ("true", "false"):
        return text == "true"
    is_number = len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit()
    return int(text) if is_number and str(int(text)) == text else text
