"""One pool of connections for each PostgreSQL database in a process, before and after a fork.

All objects that use the same DSN share it: catalogs, vectors and the state of a server.

psycopg_pool connects in the background: during an outage, its callers wait for its whole timeout
and never get the reason. Here the caller connects, and gets the error immediately.
"""

from __future__ import annotations

import os
import selectors
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from lorebind_knowledge.database.postgres_address import import_psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from lorebind_knowledge.database.postgres_address import PostgresAddress

DEFAULT_SIZE = 8
# A connection that was idle for longer is checked with a round trip before it is used.
_TRUSTED_SECONDS = 1.0
_KEPT_SECONDS = 300.0
# A server that is frozen accepts a statement and never answers.
_CHECK_SECONDS = 10.0


class Limits(NamedTuple):
    """The size that a user of a pool asks for. The largest of all users applies, up to a cap."""

    min_size: int = 0
    """Number of idle connections that stay open."""
    max_size: int | None = None
    """Maximum number of connections in use at the same time; None means what others ask for."""
    cap: int | None = None
    """The same, also where others ask for more."""


class Pool:
    """Lends connections in autocommit mode, a limited number at a time. Safe among threads."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._errors = import_psycopg().errors
        self._users: WeakKeyDictionary[object, Limits] = WeakKeyDictionary()
        self._min_size, self.size = 0, DEFAULT_SIZE
        self._renew()

    @contextmanager
    def slot(self, timeout_seconds: float) -> Iterator[bool]:
        """Wait until fewer connections than `size` are in use; yield whether that came in time.

        A caller that already has a connection of this pool does not wait, and may be one too many:
        callers that each hold a connection would wait for each other.
        """
        slots = self._slots
        has_one = any(loan.slots is slots for loan in _loans())
        if not slots.take(self, timeout_seconds, waits=not has_one):
            yield False
            return
        try:
            yield True
        finally:
            slots.give_back()

    @contextmanager
    def lend(self, begin: str) -> Iterator[psycopg.Connection]:
        """Lend a connection; `begin` is the transaction that `joined` finds in this block.

        The connection is rolled back if the block raises, and closed if that is not possible.
        """
        connection = self._take()
        loan = _Loan(self._slots, begin, connection, _loan.get())
        _loan.set(loan)
        try:
            yield connection
        except BaseException:
            # First: a call that has joined may still use the connection in another thread.
            loan.end()
            self._undo(connection)
            raise
        else:
            loan.end()
            self._give_back(connection)
        finally:
            _loan.set(loan.outer)

    @contextmanager
    def joined(self, begin: str) -> Iterator[psycopg.Connection | None]:
        """Lend the connection with which this caller is in a transaction that began like this.

        Yields None if there is none. The last of several sees the newest state.
        """
        for loan in _loans():
            if loan.slots is self._slots and loan.begin == begin:
                with loan.lock:
                    if not loan.has_ended:
                        yield loan.connection
                        return
        yield None

    def leave(self, user: object) -> None:
        """End the use by an object; the last one closes the connections."""
        with _lock:
            self._users.pop(user, None)
            self._fit()
        if not self._users:
            self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that are not in use at the moment."""
        with self._lock:
            idle = self._idle.copy()
            self._idle.clear()
        for _, connection in idle:
            connection.close()

    def abandon(self) -> None:
        """Forget the parent's connections after a fork: closing one here would end its session.

        Locks are replaced, because threads that do not exist in this process may hold them.
        """
        _of_the_parent.extend(connection for _, connection in self._idle)
        self._renew()

    def enter(self, user: object, limits: Limits) -> None:
        """Count an object as a user, which must hold `_lock`."""
        self._users[user] = limits
        self._fit()

    def _fit(self) -> None:
        limits = list(self._users.values())
        self._min_size = max((each.min_size for each in limits), default=0)
        sizes = [each.max_size for each in limits if each.max_size is not None]
        caps = [each.cap for each in limits if each.cap is not None]
        self.size = min([max(sizes, default=DEFAULT_SIZE), *caps])

    def _renew(self) -> None:
        self._idle: list[tuple[float, psycopg.Connection]] = []
        self._lock = threading.Lock()
        self._slots = _Slots()

    def _take(self) -> psycopg.Connection:
        while True:
            with self._lock:
                since, connection = self._idle.pop() if self._idle else (0.0, None)
            if connection is None:
                return self._address.connect(autocommit=True)
            if time.monotonic() - since < _TRUSTED_SECONDS or self._answers(connection):
                return connection
            connection.close()

    def _answers(self, connection: psycopg.Connection) -> bool:
        """Send a statement, and return whether the result comes in time."""
        pgconn, deadline = connection.pgconn, time.monotonic() + _CHECK_SECONDS
        with suppress(self._errors.Error), selectors.DefaultSelector() as selector:
            pgconn.send_query(b"select 1")
            selector.register(pgconn.socket, selectors.EVENT_READ)
            while pgconn.is_busy() or pgconn.get_result() is not None:
                if pgconn.is_busy():
                    if not selector.select(deadline - time.monotonic()):
                        return False
                    pgconn.consume_input()
            return pgconn.transaction_status == _IDLE
        return False

    def _undo(self, connection: psycopg.Connection) -> None:
        """Roll back and keep the connection; if that fails, close all: others may be lost too."""
        with suppress(self._errors.Error):
            if not connection.closed and connection.pgconn.transaction_status != _ACTIVE:
                connection.execute("rollback")
                self._give_back(connection)
                return
        connection.close()
        self.close_idle()

    def _give_back(self, connection: psycopg.Connection) -> None:
        now = time.monotonic()
        expired = []
        with self._lock:
            self._idle.append((now, connection))
            # The pool is last in, first out, so the first connections have been idle the longest.
            while self._idle and (
                not self._users
                or (len(self._idle) > self._min_size and now - self._idle[0][0] > _KEPT_SECONDS)
            ):
                expired.append(self._idle.pop(0)[1])
        for old in expired:
            old.close()


def enter_pool(address: PostgresAddress, user: object, limits: Limits) -> Pool:
    """Return the pool of a database, which stays open until this user leaves it or is deleted."""
    with _lock:
        pool = _pools.get(address.key)
        if pool is None:
            pool = _pools[address.key] = Pool(address)
        pool.enter(user, limits)
    return pool


class _Slots:
    """Counts the connections in use."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._used = 0

    def take(self, pool: Pool, timeout_seconds: float, *, waits: bool) -> bool:
        with self._changed:
            if waits and not self._changed.wait_for(
                lambda: self._used < pool.size, timeout_seconds
            ):
                return False
            self._used += 1
        return True

    def give_back(self) -> None:
        with self._changed:
            self._used -= 1
            self._changed.notify()


class _Loan:
    """A connection that a block uses, for what the block calls in any thread."""

    def __init__(
        self, slots: _Slots, begin: str, connection: psycopg.Connection, outer: _Loan | None
    ) -> None:
        self.slots, self.begin, self.connection, self.outer = slots, begin, connection, outer
        self.lock = threading.Lock()
        """Held by a call that has joined the transaction."""
        self.has_ended = False

    def end(self) -> None:
        """Wait for a call that has joined, which may be late, and let no other one join."""
        with self.lock:
            self.has_ended = True


_loan: ContextVar[_Loan | None] = ContextVar("loan", default=None)


def _loans() -> Iterator[_Loan]:
    """Yield the loans of this context, the last one first."""
    loan = _loan.get()
    while loan is not None:
        if not loan.has_ended:
            yield loan
        loan = loan.outer


# `PQTRANS_IDLE`: the connection is usable, and in no transaction.
_IDLE = 0
# `PQTRANS_ACTIVE`: a statement is still running, as after an interrupt; a rollback would wait.
_ACTIVE = 1

_pools: WeakValueDictionary[str, Pool] = WeakValueDictionary()
_lock = threading.Lock()
_of_the_parent: list[psycopg.Connection] = []


def _after_fork_in_child() -> None:
    # `before` took it, so that no other thread was changing a pool at the fork.
    _lock.release()
    for pool in list(_pools.values()):
        pool.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_after_fork_in_child,
    )
