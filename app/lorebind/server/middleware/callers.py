"""Identify callers: their token, their tenant, their rights and their rate limit."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind.server.failure_log import OutageLog
from lorebind.server.problems import RETRY_SECONDS, ProblemError
from lorebind.server.state.tokens import LONGEST_NAME, find_token
from lorebind_config.errors import LorebindError
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.resilience.limits import RateLimiter

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from lorebind.server.state.tokens import Rights, Token, Tokens
    from lorebind_config.declarations.project import RateLimitDeclaration

_CACHE_SECONDS = 0.5
"""Seconds until known tokens are read again, after which a revoked one is refused."""
_APART_SECONDS = 0.1
"""The shortest time between two reads of the tokens."""
_LONGEST_SECONDS = 10.0
"""Seconds after which a read of the tokens counts as failed, as the database may hang."""
_LONGEST_WAIT = 10**9
"""Maximum seconds in headers: numbers may have 15 digits, and a rate may be arbitrarily low."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    tenant: str | None
    """None if neither the token nor a header names one."""
    token: Token | None
    """None if the server has no tokens and serves only this machine."""

    @property
    def name(self) -> str:
        return self.token.id if self.token else "local"

    def require(self, rights: Rights) -> None:
        """Check that the caller has these rights.

        Raises:
            ProblemError: the token does not have them.
        """
        if self.token is not None and not self.token.may(rights):
            detail = f"this token has the rights '{self.token.rights}'; this needs '{rights}'"
            raise ProblemError("forbidden", detail)


class Callers:
    """Identifies callers by all existing tokens, which are cached for half a second.

    An unknown token causes another read, at most ten times a second, so a flood of wrong tokens
    adds little load to the database and uses no memory.
    """

    def __init__(self, tokens: Tokens, *, open_without_tokens: bool = True) -> None:
        """
        Args:
            tokens: the tokens of the server.
            open_without_tokens: whether all callers have all rights while there is no token.
        """
        self._tokens = tokens
        self._open = open_without_tokens
        self._by_id: dict[str, Token] = {}
        self._read_at = self._tried_at = self._began_at = -math.inf
        self._reading: asyncio.Task[bool] | None = None
        self._outages = OutageLog("the tokens cannot be read", "the tokens can be read again")

    async def of(self, headers: Headers, *, must_send_a_key: bool = False) -> Caller:
        """Return the caller of a request.

        Args:
            headers: the headers of the request.
            must_send_a_key: whether clients send a key even if there is no token, as OpenAI's do;
                the server then ignores it.

        Raises:
            ProblemError: the token is missing or not valid, the tenant is not one of the token's,
                or the tokens cannot be read.
        """
        tenant = _tenant(headers)
        credentials = headers.getlist("authorization")
        text, now = _bearer(credentials), time.monotonic()
        await self._read_since(now - _CACHE_SECONDS)
        if self._open and (must_send_a_key or not credentials):
            return Caller(tenant, None)
        token = find_token(text, self._by_id)
        if token is None and text:  # it may have been created just now
            await self._read_since(now)
            token = find_token(text, self._by_id)
        if token is None:
            raise _unauthenticated(credentials)
        if tenant is None and len(token.tenants) > 1:
            detail = "this token is for several tenants; name one in X-Tenant-ID"
            raise ProblemError("tenant_required", detail)
        if tenant is not None and tenant not in token.tenants:
            raise ProblemError("tenant_forbidden", "this token is not for that tenant")
        return Caller(tenant or token.tenants[0], token)

    async def _read_since(self, moment: float) -> None:
        """Read the tokens, unless a read has begun at this moment or later.

        Raises:
            ProblemError: they cannot be read.
        """
        while self._read_at < moment:
            # One read serves all concurrent requests, and no caller cancels it.
            if self._reading is None or self._reading.done():
                self._began_at = time.monotonic()
                self._reading = asyncio.create_task(self._read())
            reading, left = self._reading, self._began_at + _LONGEST_SECONDS - time.monotonic()
            await asyncio.wait({reading}, timeout=max(left, 0))
            if not reading.done():
                self._outages.failed(f"no answer within {_LONGEST_SECONDS:g} s")
            if not (reading.done() and reading.result()):
                # The error names the location of the database, which callers must not see.
                detail = "the server cannot read its tokens now; try again later"
                again = {"Retry-After": str(RETRY_SECONDS)}
                raise ProblemError("store_unavailable", detail, headers=again)

    async def _read(self) -> bool:
        """Read the tokens, and return whether that was possible; if not, it is logged."""
        await asyncio.sleep(self._tried_at + _APART_SECONDS - time.monotonic())
        # Taken before the read, which may miss a token that is created meanwhile.
        self._tried_at = now = time.monotonic()
        try:
            tokens = await call(self._tokens.all)
        except LorebindError as error:
            self._outages.failed(error)
            return False
        self._outages.worked()
        self._by_id = {token.id: token for token in tokens}
        self._read_at = now
        if self._by_id:
            # Permanent: revoking the last token must not open the server to everyone.
            self._open = False
        return True


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
        return math.ceil(min(requests / self._per_second, _LONGEST_WAIT))


def _tenant(headers: Headers) -> str | None:
    """Return the tenant that a request names.

    Raises:
        ProblemError: the request names several tenants or an invalid name.
    """
    names = headers.getlist("x-tenant-id")
    if not names:
        return None
    try:
        name = names[0].encode("latin-1").decode()  # ASGI headers are decoded as Latin-1
    except UnicodeError:
        name = ""
    if len(names) > 1 or not name or not name.isprintable() or len(name) > LONGEST_NAME:
        detail = f"X-Tenant-ID must be one name of at most {LONGEST_NAME} characters, as UTF-8"
        raise ProblemError("invalid_header", detail)
    return name


def _bearer(credentials: list[str]) -> str:
    """Return the token of a request; empty if it has none."""
    scheme, _, text = credentials[0].partition(" ") if len(credentials) == 1 else ("", "", "")
    return text.strip() if scheme.lower() == "bearer" else ""


def _unauthenticated(credentials: list[str]) -> ProblemError:
    # RFC 6750: without credentials in the request, the answer has no error code.
    wrong = ', error="invalid_token"' if credentials else ""
    return ProblemError(
        "unauthenticated",
        "send a valid token as Authorization: Bearer …; `lorebind token create` creates one",
        headers={"WWW-Authenticate": f'Bearer realm="lorebind"{wrong}'},
    )
