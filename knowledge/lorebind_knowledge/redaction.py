"""What a third party says, without the secrets that it was given: some quote a refused key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HIDDEN = "[secret]"


def said_by(
    error: Exception, *, holder: object = None, settings: Mapping[str, Any] | None = None
) -> str:
    """An exception's kind and words, to be shown to anybody.

    Args:
        error: what was raised.
        holder: the object that raised it; what it keeps as `SecretStr` is taken out.
        settings: what it was made with; the values of its texts are taken out.
    """
    text = f"{type(error).__name__}: {error}"
    for secret in {*_held(holder), *_texts(settings or {})}:
        if secret:
            text = text.replace(secret, HIDDEN)
    return text


def _held(holder: object) -> Iterator[str]:
    for value in getattr(holder, "__dict__", {}).values():
        if reveal := getattr(value, "get_secret_value", None):
            yield reveal()


def _texts(settings: Mapping[str, Any]) -> Iterator[str]:
    for value in settings.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from _texts(value)
