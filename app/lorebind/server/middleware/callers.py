"""Identify callers: their token, their tenant, their rights and their rate limit."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lorebind.server.failure_log import OutageLog
from lorebind.server.middleware.jwts import is_jwt
from lorebind.server.middleware.shared_read import SharedRead
from lorebind.server.problems import OPENAI, ProblemError
from lorebind.server.state.tokens import LONGEST_NAME, find_token, is_name
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.resilience.limits import RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import Headers

    from lorebind.server.middleware.jwts import Jwts
    from lorebind.server.state.tokens import Rights, Token, Tokens
    from lorebind_config.declarations.server import RateLimitDeclaration

_CACHE_SECONDS = 0.5
"""Seconds until known tokens are read again, after which a revoked one is refused."""
CALLER = "/api/v0/caller"
"""The path of the route that tells a caller its tenants, so that it need not name one."""
_LONGEST_WAIT = 10**9
"""Maximum seconds in headers: numbers may have 15 digits, and a rate may be arbitrarily low."""


def _nothing(_: object) -> None:
    """Do nothing."""


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

    def __init__(
        self,
        tokens: Tokens,
        jwts: Jwts | None = None,
        *,
        open_without_tokens: bool = True,
        prepare: Callable[[str | None], object] = _nothing,
    ) -> None:
        """
        Args:
            tokens: the tokens of the server.
            jwts: checks the tokens of an authorization server, if one is declared.
            open_without_tokens: whether all callers have all rights while there is no token.
            prepare: called with the tenant of a caller who is known from the last read, before the
                tokens are read again, so that other reads need not wait.
        """
        self._tokens, self._jwts = tokens, jwts
        self._open = open_without_tokens and jwts is None
        self._prepare = prepare
        outages = OutageLog("the tokens cannot be read", "the tokens can be read again")
        self._by_id = SharedRead("its tokens", self._read, outages)

    async def of(self, headers: Headers, path: str) -> Caller:
        """Return the caller of a request.

        Args:
            headers: the headers of the request.
            path: its path. `CALLER` needs no tenant. OpenAI's clients send a key even if there is
                no token; the server then ignores it.

        Raises:
            ProblemError: the token is missing or not valid, the tenant is not one of the token's,
                or the tokens cannot be read.
        """
        tenant = _tenant(headers)
        credentials = headers.getlist("authorization")
        text = _bearer(credentials)
        if self._jwts is not None and is_jwt(text):
            try:
                token: Token | None = await self._jwts.token(text)
            except ProblemError as problem:
                raise self._with_challenge(problem, headers, path) from None
        else:
            now = time.monotonic()
            self._prepare_for(text, tenant, is_open=self._open and not credentials)
            token = find_token(text, await self._by_id.since(now - _CACHE_SECONDS))
            if self._open and (path.startswith(OPENAI) or not credentials):
                return Caller(tenant, None)
            if token is None and text:  # it may have been created just now
                token = find_token(text, await self._by_id.since(now))
        if token is None:
            raise self._with_challenge(self._unauthenticated(), headers, path)
        if tenant is None and len(token.tenants) > 1:
            if path == CALLER:
                return Caller(None, token)
            detail = "this token is for several tenants; name one in X-Tenant-ID"
            raise ProblemError("tenant_required", detail)
        if tenant is not None and tenant not in token.tenants:
            raise ProblemError("tenant_forbidden", "this token is not for that tenant")
        return Caller(tenant or token.tenants[0], token)

    def _prepare_for(self, text: str, tenant: str | None, *, is_open: bool) -> None:
        if (tokens := self._by_id.value) is None:
            return
        token = find_token(text, tokens)
        if is_open:
            self._prepare(tenant)
        elif token is not None and (
            tenant in token.tenants or (tenant is None and len(token.tenants) == 1)
        ):
            self._prepare(tenant or token.tenants[0])

    async def _read(self) -> dict[str, Token]:
        tokens = await call(self._tokens.all)
        if tokens:
            # Permanent: revoking the last token must not open the server to everyone.
            self._open = False
        return {token.id: token for token in tokens}

    def _unauthenticated(self) -> ProblemError:
        how = "`lorebind token create` creates one"
        if self._jwts is not None:
            how = f"get one from {self._jwts.issuer}, or {how}"
        detail = f"send a valid token as Authorization: Bearer …; {how}"
        return ProblemError("unauthenticated", detail)

    def _with_challenge(self, problem: ProblemError, headers: Headers, path: str) -> ProblemError:
        """Add the header that tells programs how to log in."""
        if problem.code != "unauthenticated":
            return problem
        challenge = 'Bearer realm="lorebind"'
        if headers.getlist("authorization"):
            # RFC 6750: without credentials in the request, the answer has no error code.
            challenge += ', error="invalid_token"'
        if self._jwts is not None:
            challenge += f', resource_metadata="{self._jwts.url_of_metadata(headers, path)}"'
        return replace(problem, headers={"WWW-Authenticate": challenge})


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
    if len(names) > 1 or not is_name(name):
        detail = f"X-Tenant-ID must be one name of at most {LONGEST_NAME} characters, as UTF-8"
        raise ProblemError("invalid_header", detail)
    return name


def _bearer(credentials: list[str]) -> str:
    """Return the token of a request; empty if it has none."""
    scheme, _, text = credentials[0].partition(" ") if len(credentials) == 1 else ("", "", "")
    return text.strip() if scheme.lower() == "bearer" else ""
