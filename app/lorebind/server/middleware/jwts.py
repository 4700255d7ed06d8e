"""Tokens of an authorization server: JSON Web Tokens (JWT), by RFC 7519 and RFC 9068.

A client that has none reads at `METADATA` where to get one (RFC 9728).
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind.server.failure_log import OutageLog
from lorebind.server.middleware.hosts import LOOPBACK, address_of
from lorebind.server.middleware.issuers import MOST_BYTES, fault_of, fetch, parts_of
from lorebind.server.middleware.shared_read import SharedRead
from lorebind.server.problems import MCP, ProblemError
from lorebind.server.state.tokens import RIGHTS, Token, is_name
from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.errors import SourceError, UsageError
from lorebind_config.namespace import DEFAULT_TENANT
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.datastructures import Headers

    from lorebind_config.declarations.server import AuthorizationDeclaration
    from lorebind_config.templates import Environment

log = logging.getLogger("lorebind.server")

METADATA = "/.well-known/oauth-protected-resource"
"""The path of the metadata; the path of a resource can follow."""
RESOURCES = ("", MCP)
"""The paths of the resources that have metadata: the whole server, and `/mcp` by itself."""

_LEEWAY_SECONDS = 60
"""How far the clocks of the issuer and of this machine may be apart."""
_FRESH_SECONDS, _STALE_SECONDS = 300.0, 3600.0
"""Age of the keys when they are read again, and when they are not used although that fails."""
_COOL_SECONDS = 5.0
"""The shortest time between two reads of the keys, whatever keys the tokens name."""
_MOST_KEYS = 100
_MOST_TRIES = 10
"""Maximum number of keys that are tried with a token that names none."""
_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""The algorithms of each type of key: signatures by a private key only. With others, the public
key, or nobody's, could sign."""


@dataclass(frozen=True, slots=True)
class _Key:
    """A public key of the issuer."""

    name: str | None
    algorithms: tuple[str, ...]
    public: Any


def is_jwt(text: str) -> bool:
    """Check whether a token looks like a JWT. Those of the server itself do not."""
    return text.count(".") == 2


class Jwts:
    """Checks the tokens of the declared authorization server."""

    def __init__(self, declared: AuthorizationDeclaration, environment: Environment) -> None:
        """
        Args:
            declared: the issuer, and how to read its tokens.
            environment: fills in templates; a file of keys is relative to its folder.

        Raises:
            MissingVariableError: a variable that the declaration uses is not set.
            UsageError: the URL of the keys is not valid, or they would be read over plain HTTP from
                another machine.
        """
        refuse_unset(declared, environment, "server authorization")
        self.issuer = str(environment.fill(declared.issuer))
        audience = environment.fill(declared.audience)
        self._audiences = [audience] if isinstance(audience, str) else audience
        self._tenant_claim, self._rights_claim = declared.tenant_claim, declared.rights_claim
        where = str(environment.fill(declared.jwks))
        if "://" in where:
            if (url := parts_of(where)) is None:
                raise UsageError(f"{declared.position('jwks')}: the host or port is not valid")
            if url.scheme != "https" and url.hostname not in LOOPBACK:
                raise UsageError(
                    f"{declared.position('jwks')}: others could replace keys that are read over "
                    "plain HTTP; write a URL that begins with https://, or a file"
                )
        self._jwt = import_extra("jwt", extra="server", purpose="server: {authorization: …}")
        self._keys = SharedRead(
            "the keys of the authorization server",
            lambda: self._read(where, environment.root),
            # As it is written, because the value of a variable is not for display.
            OutageLog(f"the keys at {declared.jwks} cannot be read", "the keys can be read again"),
        )
        self._is_online, self._declared_issuer = "://" in where, declared.issuer

    async def prepare(self) -> None:
        """Read the keys ahead, and log what may be wrong with the issuer."""
        with suppress(ProblemError):  # which is logged, and the next token tries again
            await self._keys.since(-math.inf)
        if self._is_online and (fault := await fault_of(self.issuer)):
            log.warning("check the issuer %s: %s", self._declared_issuer, fault)

    async def token(self, text: str) -> Token:
        """Return the tenants and rights of a token, if it is valid.

        Raises:
            ProblemError: it is not valid, it has no tenant or no rights, or the keys of the issuer
                cannot be read.
        """
        try:
            header = self._jwt.get_unverified_header(text)
            claims = self._claims(text, await self._candidates(header))
        # A token may contain any JSON, which PyJWT does not always expect.
        except (
            self._jwt.PyJWTError,
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
        ) as error:
            raise ProblemError("unauthenticated", self._refusal(error)) from None
        subject = claims.get("sub") or claims.get("client_id") or text
        # Hashed, because the id is logged, and a subject may be somebody's address.
        named = hashlib.sha256(f"{self.issuer} {subject}".encode()).hexdigest()[:12]
        return Token(
            id=f"jwt_{named}",
            name=named,
            digest="",
            rights=self._rights(claims),
            tenants=self._tenants(claims),
            created_at=time.time(),
            expires_at=float(claims["exp"]),
        )

    def url_of_metadata(self, headers: Headers, path: str) -> str:
        """Return the URL of the metadata for the resource at a path."""
        return f"{self._public(headers)}{METADATA}{path if path in RESOURCES else ''}"

    def metadata(self, headers: Headers, path: str) -> dict[str, Any]:
        """Return the metadata of the resource at a path, by RFC 9728."""
        return {
            "resource": f"{self._public(headers)}{path}",
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }

    def _public(self, headers: Headers) -> str:
        """Return the public address: that of an audience, else as the client has named it."""
        for audience in self._audiences:
            url = parts_of(audience)
            if url is not None and url.scheme in ("http", "https") and url.netloc:
                return f"{url.scheme}://{url.netloc}"
        return address_of(headers)

    async def _candidates(self, header: dict[str, Any]) -> list[Any]:
        """Return the keys that can have signed a token with this header."""
        now = time.monotonic()
        return (
            _matching(header, await self._keys_since(now - _FRESH_SECONDS))
            # Otherwise, the issuer may have a new key.
            or _matching(header, await self._keys_since(now))
        )

    async def _keys_since(self, moment: float) -> list[_Key]:
        """Return the keys, if possible from a read since a moment."""
        keys = self._keys
        is_cool = time.monotonic() - keys.began_at >= _COOL_SECONDS
        if keys.is_reading or is_cool:
            with suppress(ProblemError):  # the keys of an earlier read may do
                await keys.since(moment if is_cool else keys.began_at)
        if keys.value is None or keys.age > _STALE_SECONDS:
            raise keys.problem()
        return keys.value

    def _claims(self, text: str, keys: list[_Key]) -> dict[str, Any]:
        failure: Exception = self._jwt.InvalidKeyError()
        for key in keys[:_MOST_TRIES]:
            try:
                claims: dict[str, Any] = self._jwt.decode(
                    text,
                    key.public,
                    algorithms=key.algorithms,
                    audience=self._audiences,
                    issuer=self.issuer,
                    leeway=_LEEWAY_SECONDS,
                    options={"require": ["exp", "iss", "aud"]},
                )
            except self._jwt.InvalidSignatureError as error:  # tokens need not name their key
                failure = error
            else:
                return claims
        raise failure

    def _refusal(self, error: Exception) -> str:
        reasons = {
            self._jwt.ExpiredSignatureError: "it has expired",
            self._jwt.ImmatureSignatureError: "it is not valid yet",
            self._jwt.InvalidAudienceError: "it is for another audience",
            self._jwt.InvalidIssuerError: "it is of another issuer",
            self._jwt.InvalidKeyError: "no key of the issuer fits it",
            self._jwt.MissingRequiredClaimError: str(error),
        }
        reason = reasons.get(type(error), "its signature or its form is wrong")
        return f"this token is not valid: {reason}; get a new one from {self.issuer}"

    def _tenants(self, claims: dict[str, Any]) -> tuple[str, ...]:
        if self._tenant_claim is None:
            return (DEFAULT_TENANT,)
        value = _claim(claims, self._tenant_claim)
        names = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) and is_name(name) for name in names):
            detail = f"the claim {self._tenant_claim!r} of this token names no tenant"
            raise ProblemError("tenant_forbidden", detail)
        return tuple(dict.fromkeys(names))

    def _rights(self, claims: dict[str, Any]) -> Any:
        if self._rights_claim is None:
            return "read"
        value = _claim(claims, self._rights_claim)
        words = value.split() if isinstance(value, str) else value
        words = words if isinstance(words, list) else []
        for rights in reversed(RIGHTS):
            if rights in words or f"lorebind:{rights}" in words:
                return rights
        detail = f"the claim {self._rights_claim!r} of this token has none of {', '.join(RIGHTS)}"
        raise ProblemError("forbidden", detail)

    async def _read(self, where: str, root: Path) -> list[_Key]:
        """Read the keys of the issuer.

        Raises:
            SourceError: they cannot be read.
        """
        text = await (fetch(where) if "://" in where else call(_of_file, root / where))
        try:
            written = json.loads(text)["keys"][:_MOST_KEYS]
            keys = [key for data in written if (key := self._key(data)).algorithms]
        except Exception as error:  # the set may contain anything
            raise SourceError(f"this is no JSON Web Key Set: {error!r}") from error
        if not keys:
            raise SourceError("the JSON Web Key Set has no public key for signatures")
        return keys

    def _key(self, data: Any) -> _Key:
        possible = _ALGORITHMS.get(data.get("kty"), ())
        if data.get("use", "sig") != "sig" or not possible:
            return _Key(None, (), None)
        try:
            key = self._jwt.PyJWK(data)
        except self._jwt.PyJWTError:  # of a kind that PyJWT does not know
            return _Key(None, (), None)
        is_any = key.key_type == "RSA" and "alg" not in data
        algorithms = possible if is_any else tuple({key.algorithm_name} & set(possible))
        return _Key(key.key_id, algorithms, key.key)


def _matching(header: dict[str, Any], keys: list[_Key]) -> list[_Key]:
    """Return the keys that can have signed a token with this header."""
    name = header.get("kid")
    return [
        key
        for key in keys
        if (name is None or key.name == name) and header.get("alg") in key.algorithms
    ]


def _of_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SourceError(f"the file cannot be read: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise SourceError(f"they are longer than {MOST_BYTES} bytes")
    return text


def _claim(claims: dict[str, Any], name: str) -> Any:
    """Return a claim by its name, or else by the names of nested claims."""
    if name in claims:  # names may be URLs, which contain dots
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
