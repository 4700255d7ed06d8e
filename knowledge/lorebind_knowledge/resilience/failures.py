"""Classify an exception (retry, send a smaller batch, or give up) and suggest a fix.

No provider's library is imported. Exceptions are recognized by what they carry (a status, a
response with headers), by the names of their classes and by their messages.
"""

from __future__ import annotations

import math
import re
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import Any, Literal

from lorebind_config.errors import EmbedderError, text_of
from lorebind_config.redaction import redacted_message

_CHAIN = 10
"""Maximum number of chained exceptions to inspect."""

_LONGEST_MESSAGE = 600
"""Maximum number of characters of a provider's message: some providers send a whole page."""

# Those that clients of providers repeat too, and 425, *Too Early*.
_AGAIN = {408, 409, 425, 429}
_NOT_CONNECTED = re.compile(
    r"(Timeout|Connect(ion)?|Read|Write|Transport|Network|RemoteProtocol|Disconnected)"
    r"(Error|Exception)?$"
)
_BATCH_TOO_LARGE = re.compile(
    r"too many (tokens|inputs|texts|instances|documents|items)"
    r"|(request|payload|entity|content|batch) too large|array too long|smaller batch"
    r"|max_tokens_per_request|batch.?size|submitted batch|instance\(s\) is allowed"
    r"|tokens per request|at most \d+ (texts|inputs|documents|instances)",
    re.IGNORECASE,
)
_TEXT_TOO_LONG = re.compile(
    r"context length|(maximum|max) (input|sequence) (length|tokens)|input is too (long|large)",
    re.IGNORECASE,
)
_SPENT = re.compile(r"insufficient_quota|billing_hard_limit", re.IGNORECASE)

SHORTER_TEXTS = "a text is longer than the model accepts: lower chunking.size"
_ADVICE = {
    400: "check the embedder's model and config",
    401: "the provider refused the key: check api_key and the variable that it names",
    402: "the account has no credit left: check its plan and billing",
    403: "the key lacks permission: check its rights, and that it may use the model",
    404: "there is no such model or address: check model and base_url",
    408: "the provider is slow: lower batch_size or raise the timeout",
    422: "check the embedder's model and config",
    429: "the provider limits its callers: lower requests_per_minute or max_concurrent",
}


class UnreadableAnswerError(EmbedderError):
    """The provider answered with something other than vectors, as failing gateways do."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The consequence of an exception."""

    kind: Literal["again", "smaller", "final"]
    advice: str = ""
    """A suggested fix for the operator, if no retry succeeds."""
    wait: float | None = None
    """Seconds that the provider asks to wait before the next call."""
    limited: bool = False
    """Whether the provider works, and limits the calls of this caller."""


def classify(error: BaseException) -> Failure:
    """Classify an exception of a provider or a database by its chain of causes.

    The exception is as it was raised, or wrapped in Lorebind's errors.
    """
    chain = list(_chain(error))
    words = " ".join(map(text_of, chain))
    for link in chain:
        if (status := _status(link)) is not None:
            return _by_status(status, _headers(link), words)
    if any(isinstance(link, TimeoutError) or "Timeout" in type(link).__name__ for link in chain):
        return Failure("again", _ADVICE[408])
    if any(isinstance(link, UnreadableAnswerError | JSONDecodeError) for link in chain):
        return Failure("again", "check the provider's address")
    if any(map(_is_lost_connection, chain)):
        return Failure("again", "check the network and the provider's address")
    return Failure("final", SHORTER_TEXTS if _TEXT_TOO_LONG.search(words) else "")


def _by_status(status: int, headers: Any, words: str) -> Failure:
    advice = _ADVICE.get(status, "")
    if status == 413 or (status in (400, 422, 429, 500) and _BATCH_TOO_LARGE.search(words)):
        return Failure("smaller", SHORTER_TEXTS)
    if status in (400, 422, 500) and _TEXT_TOO_LONG.search(words):
        return Failure("final", SHORTER_TEXTS)
    # OpenAI answers 429 to accounts without credit too, where no wait helps.
    if status == 429 and _SPENT.search(words):
        return Failure("final", _ADVICE[402])
    if status >= 500:
        advice = "the provider is overloaded or down: try again later"
    elif status not in _AGAIN:
        return Failure("final", advice)
    return Failure("again", advice, retry_after(headers), limited=status == 429)


def is_lost_connection(error: BaseException) -> bool:
    """Return whether a provider could not be reached."""
    return any(map(_is_lost_connection, _chain(error)))


def provider_message(error: Exception, holder: object, **settings: Any) -> str:
    """Return what `redacted_message` returns, shortened to a maximum length."""
    message = redacted_message(error, holder=holder, **settings)
    return textwrap.shorten(message, _LONGEST_MESSAGE, placeholder=" …")


def retry_after(headers: Any, now: float | None = None) -> float | None:
    """Return the wait in seconds that the headers ask for; None if absent or unreadable.

    `Retry-After` holds seconds or a date (RFC 9110, 10.2.3). OpenAI and Azure also send
    `retry-after-ms`, which is more precise.

    Args:
        headers: a mapping.
        now: seconds since 1970, which a date is compared with; by default the headers' own date,
            because clocks differ, or else this machine's.
    """
    if (value := _header(headers, "retry-after-ms")) is not None:
        return _seconds(value, 1000)
    if (value := _header(headers, "retry-after")) is None:
        return None
    if (seconds := _seconds(value, 1)) is not None:
        return seconds
    if (date := http_date(value)) is None:
        return None
    # By the clock of the server, since ours may be wrong.
    if now is None:
        now = http_date(_header(headers, "date") or "")
    return max(0.0, date - (time.time() if now is None else now))


def http_date(text: str) -> float | None:
    """Return an HTTP date as seconds since 1970, or None if it is not a valid date."""
    try:
        date = parsedate_to_datetime(text)
        # Python omits the zone `-0000`, and HTTP dates are in UTC.
        return (date.replace(tzinfo=UTC) if date.tzinfo is None else date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _seconds(value: str, parts: int) -> float | None:
    try:
        seconds = float(value) / parts
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and the exceptions behind it, in the order that a traceback follows."""
    link: BaseException | None = error
    for _ in range(_CHAIN):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an exception, or the response it carries, names."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore's
        return _as_status(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    for holder in (error, response):
        for name in ("status_code", "http_status", "status", "code"):
            if (status := _as_status(getattr(holder, name, None))) is not None:
                return status
    return None


def _as_status(value: Any) -> int | None:
    return int(value) if isinstance(value, int) and 400 <= value <= 599 else None


def _headers(error: BaseException) -> Any:
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return response.get("ResponseMetadata", {}).get("HTTPHeaders")
    return getattr(response, "headers", None) or getattr(error, "headers", None)


def _header(headers: Any, name: str) -> str | None:
    look_up = getattr(headers, "get", None)
    if look_up is None:
        return None
    value = look_up(name, look_up(name.title()))  # plain dicts are case-sensitive
    return None if value is None else str(value).strip()


def _is_lost_connection(error: BaseException) -> bool:
    if isinstance(error, ConnectionError):
        return True
    return any(
        # psycopg's OperationalError: also deadlocks, and a server that shuts down
        _NOT_CONNECTED.search(kind.__name__)
        or (kind.__name__ == "OperationalError" and kind.__module__.startswith("psycopg"))
        for kind in type(error).__mro__
    )
