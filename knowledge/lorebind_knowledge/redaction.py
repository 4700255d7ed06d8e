"""What a third party says, without the secrets that it was given: some quote a refused key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN = "[secret]"


def said_by(
    error: Exception, *, holder: object = None, written: Any = None, resolved: Any = None
) -> str:
    """An exception's kind and words, to be shown to anybody.

    Args:
        error: what was raised.
        holder: the object that raised it; what it keeps as `SecretStr` is taken out.
        written: the settings it was made with, as they stand in the configuration.
        resolved: the same with their templates filled in: what those gave is taken out.
    """
    text = f"{type(error).__name__}: {error}"
    for secret in {*_held(holder), *_filled_in(written, resolved)}:
        if secret:
            text = text.replace(secret, HIDDEN)
    return text


def _held(holder: object) -> Iterator[str]:
    for value in getattr(holder, "__dict__", {}).values():
        if reveal := getattr(value, "get_secret_value", None):
            yield reveal()


def _filled_in(written: Any, resolved: Any) -> Iterator[str]:
    if isinstance(resolved, dict):
        for key, value in resolved.items():
            yield from _filled_in(written[key], value)
    elif isinstance(resolved, list):
        for before, value in zip(written, resolved, strict=True):
            yield from _filled_in(before, value)
    elif isinstance(resolved, str) and resolved != written:
        yield resolved
