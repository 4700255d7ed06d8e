"""Who calls: by which token, for which tenant, and with which rights."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind.server.problems import RETRY_SECONDS, ProblemError
from lorebind.server.state.tokens import LONGEST_NAME, find_token
from lorebind_knowledge.bridge import call
from lorebind_knowledge.errors import LorebindError
from lorebind_knowledge.namespace import DEFAULT_TENANT

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from lorebind.server.state.tokens import Rights, Token, Tokens

log = logging.getLogger("lorebind.server")

_KNOWN_SECONDS = 0.5
"""For so long known tokens are not read again; one that was revoked is refused after that."""
_APART_SECONDS = 0.1
"""The least time between two readings."""


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
    """Finds who calls, among all tokens there are, which are kept for half a second.

    They are read again for a token that is not among them, but ten times a second at most: a flood
    of wrong tokens costs the database no more than that, and keeps nothing in memory.
    """

    def __init__(self, tokens: Tokens, *, open_without_tokens: bool = True) -> None:
        """
        Args:
            tokens: those of the server.
            open_without_tokens: whether anybody may do everything as long as there is no token.
        """
        self._tokens = tokens
        self._open = open_without_tokens
        self._known: dict[str, Token] = {}
        self._read_at = self._tried_at = -math.inf
        self._reading: asyncio.Task[None] | None = None

    async def of(self, headers: Headers) -> Caller:
        """
        Raises:
            ProblemError: no token, one that is not valid, or a tenant that is not its; or the
                tokens cannot be read.
        """
        wanted = _tenant(headers)
        given = headers.getlist("authorization")
        text, now = _bearer(given), time.monotonic()
        await self._read_since(now - _KNOWN_SECONDS)
        if not given and self._open:
            return Caller(wanted or DEFAULT_TENANT, None)
        token = find_token(text, self._known)
        if token is None and text:  # it may have been made just now
            await self._read_since(now)
            token = find_token(text, self._known)
        if token is None:
            raise _unauthenticated(given)
        if wanted is None and len(token.tenants) > 1:
            detail = "this token is for several tenants; name one as X-Tenant-ID"
            raise ProblemError("tenant_required", detail)
        if wanted is not None and wanted not in token.tenants:
            raise ProblemError("tenant_forbidden", "this token is not for that tenant")
        return Caller(wanted or token.tenants[0], token)

    async def _read_since(self, moment: float) -> None:
        """Read the tokens, unless that was begun at a moment or later."""
        while self._read_at < moment:
            # Of many requests at once, one reads for all; its end must not end the reading.
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read())
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        await asyncio.sleep(self._tried_at + _APART_SECONDS - time.monotonic())
        self._tried_at = now = time.monotonic()
        try:
            found = await call(self._tokens.all)
        except LorebindError as error:
            # Callers need not know where it is.
            log.error("the tokens cannot be read: %s", error)
            detail = "the server cannot read its tokens now; try again later"
            again = {"Retry-After": str(RETRY_SECONDS)}
            raise ProblemError("store_unavailable", detail, headers=again) from error
        self._known = {token.id: token for token in found}
        self._read_at = now
        if self._known:
            # For good: whoever revokes the last token does not want to let everybody in.
            self._open = False


def _tenant(headers: Headers) -> str | None:
    """The tenant that a request names.

    Raises:
        ProblemError: it names several, or none that there can be.
    """
    given = headers.getlist("x-tenant-id")
    if not given:
        return None
    try:
        name = given[0].encode("latin-1").decode()  # a server hands headers on as Latin-1
    except UnicodeError:
        name = ""
    if len(given) > 1 or not name or not name.isprintable() or len(name) > LONGEST_NAME:
        detail = f"X-Tenant-ID must be one name of at most {LONGEST_NAME} characters, as UTF-8"
        raise ProblemError("invalid_header", detail)
    return name


def _bearer(given: list[str]) -> str:
    """The token of a request, empty without one."""
    scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return text.strip() if scheme.lower() == "bearer" else ""


def _unauthenticated(given: list[str]) -> ProblemError:
    # RFC 6750: why is told only to those who have sent something.
    wrong = ', error="invalid_token"' if given else ""
    return ProblemError(
        "unauthenticated",
        "send a valid token as Authorization: Bearer …; `lorebind token create` makes one",
        headers={"WWW-Authenticate": f'Bearer realm="lorebind"{wrong}'},
    )
