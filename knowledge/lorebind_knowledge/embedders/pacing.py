"""Compute waits: before a retry, and for the next call within a minute. Pure arithmetic."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_config.declarations.embedders import RetryConfig

_NEARLY = 1e-6
"""Tolerance for rounding: a caller that waits for exactly one token must get it."""


def backoff(retry: RetryConfig, failures: int, asked: float | None, chance: float) -> float:
    """Return the seconds to wait after this many failures in a row.

    Exponential with full jitter, which spreads out callers that failed together
    (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).

    Args:
        retry: the limits.
        failures: 1 after the first failure.
        asked: the seconds that the provider asked to wait; the jitter is added to them.
        chance: a random number in [0, 1).
    """
    longest = retry.max_backoff_ms / 1000
    jitter = chance * min(longest, retry.backoff_ms / 1000 * 2.0 ** (failures - 1))
    return min(longest, (asked or 0.0) + jitter)


class TokenBucket:
    """A limit of calls per minute, spread evenly: bursts hold at most one second's worth of calls.

    Within any minute there are at most `per_minute` calls plus that one second's worth. Safe to
    share among threads; the caller passes the time, in seconds of a monotonic clock.
    """

    def __init__(self, per_minute: int, now: float) -> None:
        self._per_second = per_minute / 60
        self._capacity = max(1.0, self._per_second)
        self._tokens = self._capacity
        self._filled_at = now
        self._lock = threading.Lock()

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds after which to call again."""
        with self._lock:
            gained = max(0.0, now - self._filled_at) * self._per_second
            self._tokens = min(self._capacity, self._tokens + gained)
            self._filled_at = max(now, self._filled_at)
            if self._tokens >= 1 - _NEARLY:
                self._tokens -= 1
                return 0.0
            return (1 - self._tokens) / self._per_second
