"""What a third party says, without the secrets that it was given: some quote a refused key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN = "[secret]"

_WITHIN = re.compile("(?:AccountKey|sig)=([^;&]+)")
"""Secrets within a secret: a connection string or a signature of Azure is quoted in parts too."""


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
    secrets = {*_held(holder), *_filled_in(written, resolved)}
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(form, HIDDEN)
    return text


def _forms(secret: str) -> Iterator[str]:
    """The secret and those within it, each as it is, as addresses hold it, and out of one."""
    for text in (secret, *_WITHIN.findall(secret)):
        yield from (text, quote(text, safe=""), quote_plus(text), unquote(text))


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
