"""Who may write a knowledge base: the holder of its lease, known by a number.

Every taker gets a number that nobody had before. Each transaction of a writer begins by asking
whether its number is still the latest, so that a writer that was cut off, stopped for a while or
lost its connection changes nothing after another has taken over. See Gray and Cheriton, "Leases"
(1989); the number is what Kleppmann calls a fencing token.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from lorebind_knowledge.errors import LeaseLostError, StoreError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.database.base import Database
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.namespace import Namespace

SECONDS = 30.0
"""How long a lease lasts unless it is renewed."""
_RENEWALS = 4
"""Renewals in that time."""


class Lease(NamedTuple):
    """The right to write one knowledge base."""

    namespace: Namespace
    number: int

    @property
    def name(self) -> str:
        return lease_name(self.namespace)


def lease_name(namespace: Namespace) -> str:
    owner = (namespace.tenant, namespace.project, namespace.scope, namespace.kb)
    return digest(*owner)[:16]


def take(database: Database, namespace: Namespace, *, alone: bool) -> Lease | None:
    """The lease of a knowledge base; None while another process holds it.

    Args:
        database: the catalog's.
        namespace: whose.
        alone: whether the lock of processes is ours. Who had it together with the lease has then
            ended, and is followed at once; anyone else is followed when the lease has expired.
    """
    name = lease_name(namespace)
    with database.writing() as sql:
        sql.run(
            "insert into catalog_leases (name, number, expires, locked)"
            " values (:name, 0, 0, true) on conflict do nothing",
            name=name,
        )
        taken = sql.run(
            f"update catalog_leases set number = number + 1, expires = {sql.now} + :seconds,"
            f" locked = :alone where name = :name and (:alone and locked or expires < {sql.now})"
            " returning number",
            name=name,
            seconds=SECONDS,
            alone=alone,
        )
    return Lease(namespace, taken[0][0]) if taken else None


def check(sql: Sql, lease: Lease) -> None:
    """To be called first in every transaction that writes what the lease is about.

    Raises:
        LeaseLostError: another one has been taken since.
    """
    if sql.is_postgres:
        # Locks the row: who takes the lease waits for this transaction.
        held = (
            "select 1 from catalog_leases where name = :name and number = :number for no key update"
        )
    else:
        held = "select 1 from catalog_leases where name = :name and number = :number"
    if not sql.run(held, name=lease.name, number=lease.number):
        raise LeaseLostError(
            f"knowledge base {lease.namespace.kb!r}: another process took over after this one was "
            f"cut off or stopped for {SECONDS:g} s; nothing was changed since, run it again"
        )


@contextmanager
def kept(database: Database, lease: Lease) -> Iterator[None]:
    """Renew a lease from time to time inside the block, and give it back at the end."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(SECONDS / _RENEWALS):
            # An outage is met by the writer too, which can say so.
            with suppress(StoreError):
                _set_end(database, lease, SECONDS)

    thread = threading.Thread(target=renew, name="lorebind-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with suppress(StoreError):
            _set_end(database, lease, -1)


def _set_end(database: Database, lease: Lease, seconds: float) -> None:
    with database.writing() as sql:
        sql.run(
            f"update catalog_leases set expires = {sql.now} + :seconds"
            " where name = :name and number = :number",
            seconds=seconds,
            name=lease.name,
            number=lease.number,
        )
