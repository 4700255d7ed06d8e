"""Tokens of the callers of a server, with their tenants and rights."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lorebind.server.state.tables import lock
from lorebind_config.errors import NotFoundError, UsageError, did_you_mean
from lorebind_config.namespace import DEFAULT_TENANT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

Rights: TypeAlias = Literal["read", "write", "admin"]

RIGHTS: tuple[Rights, ...] = ("read", "write", "admin")
"""The rights of a token; each includes the ones before it."""

LONGEST_NAME = 200
"""Maximum number of characters in the name of a token or a tenant."""

_PREFIX = "lorebind"
_LONGEST_DAYS = 36500
_COLUMNS = "id, name, digest, rights, tenants, created_at, expires_at"


@dataclass(frozen=True, slots=True)
class Token:
    """The stored data of a token, without its secret."""

    id: str
    name: str
    digest: str
    rights: Rights
    tenants: tuple[str, ...]
    created_at: float
    """Seconds since 1970."""
    expires_at: float | None

    def may(self, rights: Rights) -> bool:
        return RIGHTS.index(self.rights) >= RIGHTS.index(rights)

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= time.time()


class Tokens:
    """The tokens of a server. The methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        name: str,
        rights: Rights,
        tenants: Sequence[str] = (),
        expires_in_days: float | None = None,
    ) -> tuple[Token, str]:
        """Create a token, and return it with its text, which is not stored.

        Args:
            name: the name of the token.
            rights: its rights.
            tenants: the tenants it may use; without any, the default tenant.
            expires_in_days: up to 100 years; None means never.

        Raises:
            UsageError: the name is taken, or an argument is not valid.
        """
        for text in (name, *tenants):
            if not is_name(text):
                raise UsageError(
                    "a token and its tenants need printable names of at most "
                    f"{LONGEST_NAME} characters; got {text[:LONGEST_NAME]!a}"
                )
        if rights not in RIGHTS:
            raise UsageError(f"unknown rights {rights!r}; {did_you_mean(rights, RIGHTS)}")
        if expires_in_days is not None and not 0 < expires_in_days <= _LONGEST_DAYS:
            raise UsageError(
                f"a token is valid for up to {_LONGEST_DAYS} days, and more than 0; "
                f"got {expires_in_days:g}"
            )
        secret, now = secrets.token_urlsafe(32), time.time()
        expires = None if expires_in_days is None else now + expires_in_days * 86400
        token = Token(
            secrets.token_hex(6),
            name,
            _digest(secret),
            rights,
            tuple(dict.fromkeys(tenants)) or (DEFAULT_TENANT,),
            now,
            expires,
        )
        with self._database.writing() as sql:
            lock(sql, "server_tokens")
            if sql.run("select 1 from server_tokens where name = :name", name=name):
                raise UsageError(
                    f"the token {name!r} already exists; revoke it, or choose another name"
                )
            row = {column: getattr(token, column) for column in _COLUMNS.split(", ")}
            sql.insert("server_tokens", [row | {"tenants": json.dumps(token.tenants)}])
        return token, f"{_PREFIX}_{token.id}_{secret}"

    def all(self) -> list[Token]:
        """Return all tokens by name, including expired ones."""
        with self._database.reading() as sql:
            return self._read(sql, "order by name")

    def revoke(self, name: str) -> Token:
        """Delete a token, so that servers refuse it.

        Raises:
            NotFoundError: no such token; the error lists the existing ones.
        """
        with self._database.writing() as sql:
            every = {token.name: token for token in self._read(sql)}
            if name not in every:
                raise NotFoundError(f"there is no token {name!r}; {did_you_mean(name, every)}")
            sql.run("delete from server_tokens where name = :name", name=name)
        return every[name]

    def _read(self, sql: Sql, which: str = "", **values: str) -> list[Token]:
        rows = sql.run(f"select {_COLUMNS} from server_tokens {which}", **values)
        return [
            Token(token_id, name, digest, rights, tuple(json.loads(tenants)), created, expires)
            for token_id, name, digest, rights, tenants, created, expires in rows
        ]


def is_name(text: str) -> bool:
    """Check whether a token or a tenant can have this name."""
    return bool(text) and text.isprintable() and len(text) <= LONGEST_NAME


def find_token(text: str, tokens: Mapping[str, Token]) -> Token | None:
    """Return the token with this text, if it is valid now.

    Args:
        text: the text returned by `create`.
        tokens: the existing tokens, by id.
    """
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    if prefix != _PREFIX or not text.isascii():
        return None
    token = tokens.get(token_id)
    # Compares even without a token, so that the time does not reveal whether it exists.
    expected = token.digest if token else _digest("")
    same = hmac.compare_digest(_digest(secret), expected)
    return token if token and same and not token.is_expired else None


def _digest(secret: str) -> str:
    """Hash a secret. It is random and long, so a fast hash is as good as a slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()
