"""The rate limit of each caller, and the headers that tell it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lorebind.server.problems import ProblemError
from lorebind_knowledge.resilience.rate_limiter import RateLimiter

if TYPE_CHECKING:
    from lorebind_config.declarations.server import RateLimitDeclaration

_LONGEST = 10**9
"""Maximum seconds in headers: numbers may have 15 digits, and a rate may be arbitrarily low."""


class Rates:
    """Allows each caller bursts of `burst` requests, and `per_second` requests on average."""

    def __init__(self, declared: RateLimitDeclaration) -> None:
        self._per_second, self._burst = declared.per_second, declared.burst
        self._limiter = RateLimiter(declared.per_second, declared.burst)

    def take(self, caller: str) -> dict[str, str]:
        """Count a request, and return headers with the number of remaining requests.

        Raises:
            ProblemError: the caller has no requests left.
        """
        refused, left = self._limiter.take(caller)
        # Seconds until a full burst is available, or after a refusal, the next request.
        wait = self._seconds(1 - left if refused else self._burst - left)
        headers = {
            # draft-ietf-httpapi-ratelimit-headers-10
            "RateLimit-Policy": f'"default";q={self._burst};w={self._seconds(self._burst)}',
            "RateLimit": f'"default";r={int(left)};t={wait}',
        }
        if refused:
            detail = f"too many requests; try again in {wait} s"
            headers["Retry-After"] = str(wait)
            raise ProblemError("rate_limited", detail, headers=headers)
        return headers

    def _seconds(self, requests: float) -> int:
        """Return the seconds until the caller may send this number of requests."""
        return math.ceil(min(requests / self._per_second, _LONGEST))
