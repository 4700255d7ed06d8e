"""How often each caller may call: a token bucket for each."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from lorebind.server.problems import ProblemError

if TYPE_CHECKING:
    from lorebind_knowledge.declarations.server import RateLimitDeclaration

_CALLERS = 10_000
"""How many callers are remembered; those that called least recently are forgotten."""
_LONGEST = 10**9
"""Seconds. Numbers in headers may have 15 digits, and a rate may be as low as one likes."""


class Rates:
    """Each caller has `burst` requests at once, and `per_second` more."""

    def __init__(self, declared: RateLimitDeclaration) -> None:
        self._per_second, self._burst = declared.per_second, declared.burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> dict[str, str]:
        """Count a request; the headers that say how many are left.

        Raises:
            ProblemError: it is one too many.
        """
        now = time.monotonic()
        left, then = self._buckets.pop(caller, (float(self._burst), now))
        left = min(self._burst, left + (now - then) * self._per_second)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        remaining = int(left - 1) if allowed else 0
        # When all may be sent again, or the next one.
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
        """How long it takes until so many more may be sent."""
        return math.ceil(min(requests / self._per_second, _LONGEST))
