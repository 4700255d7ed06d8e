"""The rate limit of each caller: a token bucket."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from lorebind.server.problems import ProblemError

if TYPE_CHECKING:
    from lorebind_config.declarations.server import RateLimitDeclaration

_CALLERS = 10_000
"""Maximum number of callers in memory; the least recently seen ones are forgotten."""
_LONGEST = 10**9
"""Maximum seconds in headers: numbers may have 15 digits, and a rate may be arbitrarily low."""


class Rates:
    """Allows each caller bursts of `burst` requests, and `per_second` requests on average."""

    def __init__(self, declared: RateLimitDeclaration) -> None:
        self._per_second, self._burst = declared.per_second, declared.burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> dict[str, str]:
        """Count a request, and return headers with the number of remaining requests.

        Raises:
            ProblemError: the caller has no requests left.
        """
        now = time.monotonic()
        left, then = self._buckets.pop(caller, (float(self._burst), now))
        left = min(self._burst, left + (now - then) * self._per_second)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        remaining = int(left - 1) if allowed else 0
        # Seconds until a full burst is available, or after a refusal, the next request.
        wait = self._seconds(self._burst - left + 1 if allowed else 1 - left)
        headers = {
            # draft-ietf-httpapi-ratelimit-headers-10
            "RateLimit-Policy": f'"default";q={self._burst};w={self._seconds(self._burst)}',
            "RateLimit": f'"default";r={remaining};t={wait}',
        }
        if not allowed:
            detail = f"too many requests; try again in {wait} s"
            headers["Retry-After"] = str(wait)
            raise ProblemError("rate_limited", detail, headers=headers)
        return headers

    def _seconds(self, requests: float) -> int:
        """Return the seconds until the caller may send this number of requests."""
        return math.ceil(min(requests / self._per_second, _LONGEST))
