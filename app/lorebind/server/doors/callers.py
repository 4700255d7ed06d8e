"""Who calls: by which token, for which tenant, and with which rights."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind.server.problems import ProblemError
from lorebind_knowledge.bridge import call
from lorebind_knowledge.namespace import DEFAULT_TENANT

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from lorebind.server.state.tokens import Rights, Token, Tokens

_KNOWN_SECONDS = 0.5
"""For so long a token is not looked up again; one that was revoked is refused after that."""
_KNOWN = 1000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    tenant: str
    token: Token | None
    """None where the server has no tokens, and serves this machine only."""

    @property
    def name(self) -> str:
        return self.token.id if self.token else "local"

    def require(self, rights: Rights) -> None:
        """
        Raises:
            ProblemError: the token has not these rights.
        """
        if self.token is not None and not self.token.may(rights):
            detail = f"this token has the rights '{self.token.rights}'; this needs '{rights}'"
            raise ProblemError("forbidden", detail)


class Callers:
    """Finds who calls. What was found is remembered for half a second."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._known: dict[str, tuple[float, Token | None]] = {}
        self._any: tuple[float, bool] = (-1.0, False)
        self._looking = asyncio.Lock()

    async def are_needed(self) -> bool:
        """Whether there are tokens."""
        at, found = self._any
        if time.monotonic() - at > _KNOWN_SECONDS:
            found = await call(self._tokens.any)
            self._any = time.monotonic(), found
        return found

    async def of(self, headers: Headers) -> Caller:
        """
        Raises:
            ProblemError: no token, one that is not valid, or a tenant that is not its.
        """
        wanted = headers.get("x-tenant-id")
        given = headers.getlist("authorization")
        if not given and not await self.are_needed():
            return Caller(wanted or DEFAULT_TENANT, None)
        token = await self._find(given)
        if token is None:
            raise ProblemError(
                "unauthenticated",
                "send a valid token as Authorization: Bearer …; `lorebind token create` makes one",
                headers={"WWW-Authenticate": 'Bearer realm="lorebind"'},
            )
        if wanted is None and len(token.tenants) > 1:
            detail = "this token is for several tenants; name one as X-Tenant-ID"
            raise ProblemError("tenant_required", detail)
        if wanted is not None and wanted not in token.tenants:
            raise ProblemError("tenant_forbidden", "this token is not for that tenant")
        return Caller(wanted or token.tenants[0], token)

    async def _find(self, given: list[str]) -> Token | None:
        if len(given) != 1:
            return None
        scheme, _, text = given[0].partition(" ")
        if scheme.lower() != "bearer":
            return None
        text = text.strip()
        at, token = self._known.get(text, (-1.0, None))
        if time.monotonic() - at > _KNOWN_SECONDS:
            async with self._looking:  # of many requests at once, one looks
                at, token = self._known.get(text, (-1.0, None))
                if time.monotonic() - at > _KNOWN_SECONDS:
                    token = await call(self._tokens.find, text)
                    if len(self._known) >= _KNOWN:
                        self._known.clear()
                    self._known[text] = time.monotonic(), token
        return None if token is None or token.is_expired else token
