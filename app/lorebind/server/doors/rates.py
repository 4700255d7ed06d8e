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
        window = math.ceil(self._burst / self._per_second)
        wait = math.ceil(max(0.0, 1 - left) / self._per_second)
        remaining = int(left - 1) if allowed else 0
        headers = {
            # draft-ietf-httpapi-ratelimit-headers
            "RateLimit-Policy": f'"default";q={self._burst};w={window}',
            "RateLimit": f'"default";r={remaining};t={wait if not allowed else 0}',
        }
        if not allowed:
            detail = f"too many requests; try again in {wait} s"
            raise ProblemError(
                "rate_limited", detail, headers=headers | {"Retry-After": str(max(wait, 1))}
            )
        return headers
