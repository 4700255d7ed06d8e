"""Leases: only the holder of a knowledge base's lease may write it.

Each new holder gets a number that was never used before. Every write transaction first checks that
its number is still the latest. A writer that was suspended or lost its connection therefore
changes nothing after another writer has taken over. See Gray and Cheriton, "Leases" (1989); the
number is what Kleppmann calls a fencing token.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from lorebind_config.errors import LeaseLostError, StoreError
from lorebind_config.namespace import digest
from lorebind_knowledge.database import postgres_connections
from lorebind_knowledge.plumbing.lanes import repeated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

SECONDS = 30.0
"""Default duration of a lease that is not renewed."""
_SKEW = 2.0
"""A lease that ends later than in its duration and this is of a clock that was set back since."""
_RENEWALS = 4
"""Renewals during a lease."""
_LEAST_IDLE_SECONDS = 1.0
"""Seconds that a holder may be idle in a transaction, even with a very short lease."""
_FENCE = "'catalog_leases'::regclass::oid::integer, hashtext(:name)"
"""The advisory lock in PostgreSQL around the writes of a lease's holder. Leases with the same hash
only wait for each other. The table is part of it, as another schema has other leases."""


class Lease(NamedTuple):
    """The right to write one knowledge base."""

    namespace: Namespace
    number: int
    seconds: float = SECONDS
    """How long it lasts if it is not renewed."""

    @property
    def name(self) -> str:
        return lease_name(self.namespace)


held: ContextVar[Lease | None] = ContextVar("lease", default=None)
"""The lease for which the current code runs."""


def lease_name(namespace: Namespace) -> str:
    owner = (namespace.tenant, namespace.project, namespace.scope, namespace.kb)
    return digest(*owner)[:16]


def take(
    database: Database, namespace: Namespace, *, alone: bool, seconds: float | None = None
) -> Lease | None:
    """Take the lease of a knowledge base; return None if another process holds it.

    Args:
        database: the catalog's.
        namespace: the knowledge base.
        alone: whether this process holds the process lock. A previous holder that had the process
            lock too must have ended, so its lease is taken immediately. Any other lease is taken
            when it has expired, by the clock of the database.
        seconds: the duration of the lease; None means `SECONDS`.
    """
    name, seconds = lease_name(namespace), seconds or SECONDS
    values = {"name": name, "skew": _SKEW, "alone": alone}
    with database.writing() as sql:
        # The update below changes existing rows only: the first writer needs a row that counts as
        # free.
        sql.run(
            "insert into catalog_leases (name, number, expires, seconds, locked)"
            " values (:name, 0, 0, 0, true) on conflict do nothing",
            name=name,
        )
        is_free = (
            "name = :name and (:alone and locked"
            f" or expires < {sql.now} or expires > {sql.now} + seconds + :skew)"
        )
        if sql.is_postgres:
            # Looked up first: a process that waits for the lease must not delay the writer.
            if not sql.run(f"select 1 from catalog_leases where {is_free}", **values):
                return None
            sql.run(f"select pg_advisory_xact_lock({_FENCE})", name=name)
        # One statement, so that of two processes only the first finds the lease free.
        taken = sql.run(
            f"update catalog_leases set number = number + 1, expires = {sql.now} + :seconds,"
            f" seconds = :seconds, locked = :alone where {is_free} returning number",
            seconds=seconds,
            **values,
        )
        if taken:
            _clear_batches(sql, name, taken[0][0])
    return Lease(namespace, taken[0][0], seconds) if taken else None


def check(sql: Sql, lease: Lease) -> None:
    """Check that a lease is still valid; call it first in every transaction that needs the lease.

    Raises:
        LeaseLostError: another process has taken the lease since.
    """
    if sql.is_postgres:
        # The transactions of one holder share the fence; a process that takes the lease waits for
        # those that began before. In a statement of its own: the next one sees a new number.
        # A holder that is suspended in a transaction does not delay it beyond its lease.
        idle = min(postgres_connections.IDLE_SECONDS, max(lease.seconds, _LEAST_IDLE_SECONDS))
        sql.run(
            f"select pg_advisory_xact_lock_shared({_FENCE}),"
            " set_config('idle_in_transaction_session_timeout', :idle, true)",
            name=lease.name,
            idle=f"{idle * 1000:.0f}ms",
        )
    held = "select 1 from catalog_leases where name = :name and number = :number"
    if not sql.run(held, name=lease.name, number=lease.number):
        raise LeaseLostError(
            f"knowledge base {lease.namespace.kb!r}: another process took over after this one was "
            f"cut off or suspended for {lease.seconds:g} s; nothing was changed since; run it again"
        )


@contextmanager
def renewed(database: Database, lease: Lease) -> Iterator[None]:
    """Renew a lease regularly inside the block, and release it at the end."""

    def renew() -> None:
        # The writer runs into the same outage and can report it.
        with suppress(StoreError):
            _set_end(database, lease, lease.seconds)

    try:
        with repeated(lease.seconds / _RENEWALS, renew, "lorebind-lease"):
            yield
    finally:
        # If that fails, others wait until the lease runs out; the outage has been reported.
        with suppress(StoreError):
            _set_end(database, lease, -1)


def _set_end(database: Database, lease: Lease, seconds: float) -> None:
    with database.writing() as sql:
        # With the number, so that a holder that was replaced neither extends nor ends the next
        # lease.
        sql.run(
            f"update catalog_leases set expires = {sql.now} + :seconds"
            " where name = :name and number = :number",
            seconds=seconds,
            name=lease.name,
            number=lease.number,
        )
        if seconds < 0:
            _clear_batches(sql, lease.name, lease.number)


def _clear_batches(sql: Sql, lease: str, number: int) -> None:
    """Remove the batches of a lease and of earlier ones of the same name.

    A worker that embeds one of them stores its vectors nevertheless.
    """
    ours = "lease = :lease and number <= :number"
    sql.run(f"delete from catalog_batches where {ours}", lease=lease, number=number)
    # Nobody else removes claims of workers that were killed, unless the same texts come again.
    sql.run(f"delete from catalog_claims where until < {sql.now}")
