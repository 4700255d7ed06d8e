"""A PostgreSQL database by its DSN: connecting, storing any text, and advice about errors."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import UsageError
from lorebind_config.namespace import digest
from lorebind_config.plugins import import_extra
from lorebind_config.redaction import HIDDEN

if TYPE_CHECKING:
    import psycopg
    from psycopg.adapt import AdaptersMap

_CONNECT_SECONDS = 10
_SILENT_SECONDS = 30


class PostgresAddress:
    """A database by its DSN, `postgresql://user:password@host:port/database` or any libpq form.

    `str` names the database and never contains a secret.
    """

    def __init__(self, dsn: str) -> None:
        """
        Raises:
            UsageError: the DSN is invalid. The message omits it, because it may hold a password.
            MissingDependencyError: psycopg is not installed.
        """
        self._psycopg = import_psycopg()
        # SQLAlchemy and LangChain put the driver's name into the scheme.
        plain = re.sub(r"^postgres(ql)?\+\w+://", "postgresql://", dsn)
        try:
            self._settings: dict[str, Any] = self._psycopg.conninfo.conninfo_to_dict(plain)
        except self._psycopg.Error:
            raise UsageError(
                "the DSN of the PostgreSQL database cannot be read; "
                "expected postgresql://user:password@host:port/database"
            ) from None

    @property
    def key(self) -> str:
        """A text that is equal for addresses of the same database with the same settings."""
        return digest(*(f"{name}={value}" for name, value in sorted(self._settings.items())))

    def connect(self, *, autocommit: bool) -> psycopg.Connection:
        """Open a connection that can store any text and plans every statement for its values.

        Raises:
            psycopg.OperationalError: the server cannot be reached, or refuses the connection.
        """
        settings = {
            "application_name": "lorebind",
            "connect_timeout": _CONNECT_SECONDS,
            # A firewall may drop idle connections without notifying either end.
            "keepalives_idle": _SILENT_SECONDS,
            "tcp_user_timeout": _SILENT_SECONDS * 1000,
            **self._settings,
        }
        connection: psycopg.Connection = self._psycopg.connect(
            **settings,
            client_encoding="UTF8",
            autocommit=autocommit,
            # A generic plan cannot use partial indexes, and a pooler between client and server may
            # not support prepared statements.
            prepare_threshold=None,
            context=_keeping_any_text(),
        )
        return connection

    def advice(self, error: BaseException) -> str:
        """Return PostgreSQL's message, without the password, with a suggested fix."""
        message = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
        text = " ".join(message.split())
        if password := self._settings.get("password"):
            text = text.replace(password, HIDDEN)
        code = getattr(error, "sqlstate", None) or ""
        hints = [hint for sign, hint in _BY_CODE.items() if code.startswith(sign)]
        hints += [hint for sign, hint in _BY_WORDS.items() if sign in text]
        return f"{text}; {hints[0]}" if hints else text

    def is_outage(self, error: psycopg.Error) -> bool:
        """Whether the server cannot be reached, or has closed the connection."""
        if not isinstance(error, self._psycopg.OperationalError):
            return False
        # Errors that libpq itself notices, such as a reset connection, have no code.
        return error.sqlstate is None or error.sqlstate.startswith(_OUTAGES)

    def __str__(self) -> str:
        host, port = self._settings.get("host", ""), self._settings.get("port", "")
        name = self._settings.get("dbname") or self._settings.get("service") or ""
        return f"{host or 'local'}{f':{port}' if port else ''}/{name}"

    def __repr__(self) -> str:
        return f"PostgresAddress({str(self)!r})"


def import_psycopg() -> Any:
    return import_extra("psycopg", extra="postgres", purpose="storing data in PostgreSQL")


_OUTAGES = ("08", "57P")
"""Classes of SQLSTATE: the connection failed, and the server stops, starts or ends the session."""

# By SQLSTATE or its class, specific ones first.
_BY_CODE = {
    "28": "check user and password of the DSN",
    "3D000": "create the database, or name another one in the DSN",
    "42501": "grant the role of the DSN the right to do so",
    "42P01": "if the table was dropped, ingest again",
    "25P03": "this process was suspended for too long; run it again",
    "25006": "connect to the primary server; this one is read-only",
    "53100": "free some space on the server's disk, then try again",
    "53300": "lower pool.max_size, or raise the server's max_connections",
    "55P03": "another transaction holds the lock; wait for it to end, then try again",
    "57014": "try again, or raise the statement_timeout of the role",
    "57P": "try again when the server is up",
    "08": "try again when the server is up",
}
_BY_WORDS = {
    "password": "check user and password of the DSN",
    'FATAL: database "': "create it, or name another one in the DSN",
    "too many clients": "lower pool.max_size, or raise the server's max_connections",
    "connection failed": "check that the server is up and that this is its address",
    "connection is lost": "try again when the server is up",
    "connection timeout": "check that the server is up and that this is its address",
    "server closed": "try again when the server is up",
    "could not receive data": "try again when the server is up",
}


# PostgreSQL's text type cannot hold the character NUL. It is stored as two characters, and so is
# the escape character. The order by code points stays the same.


def escaped(text: str) -> str:
    """Return a text in a form that PostgreSQL can store."""
    if "\x00" in text or "\x01" in text:
        return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01")
    return text


def unescaped(text: str) -> str:
    """Return the text that was given to `escaped`."""
    if "\x01" in text:
        return text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01")
    return text


@cache
def _keeping_any_text() -> AdaptersMap:
    """Return psycopg's adapters for texts, with this escaping in each."""
    from psycopg import adapters
    from psycopg.adapt import AdaptersMap
    from psycopg.types.string import (
        StrBinaryDumper,
        StrBinaryDumperVarchar,
        StrDumperUnknown,
        TextLoader,
    )

    def dumping(kind: Any) -> Any:
        return type(
            kind.__name__, (kind,), {"dump": lambda self, obj: kind.dump(self, escaped(obj))}
        )

    class Loader(TextLoader):
        def load(self, data: Any) -> Any:
            return unescaped(str(super().load(data)))

    class BinaryLoader(Loader):
        format = import_psycopg().pq.Format.BINARY

    ways = AdaptersMap(adapters)
    for kind in (StrBinaryDumperVarchar, StrBinaryDumper, StrDumperUnknown):
        ways.register_dumper(str, dumping(kind))
    for name in ("text", "varchar"):
        ways.register_loader(name, Loader)
        ways.register_loader(name, BinaryLoader)
    return ways
