"""Connections to SQLite databases, for any thread, before and after a fork.

A connection must not be used, nor even closed, on the other side of a fork. SQLite's locks stay
with the parent, while the child's copy of the library assumes that it holds them. A lock inside the
library that a thread holds during the fork is never freed in the child. A fork therefore waits for
the connections in use, and all connections are closed before it.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING
from weakref import WeakSet

from lorebind_knowledge.database.sqlite_file import file_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from sqlite3 import Connection

    from lorebind_knowledge.database.sqlite_file import FileIdentity

_IDLE_KEPT = 8
_SECONDS_BEFORE_A_FORK = 10.0


class SqlitePool:
    """Lends connections to one database. No connection is bound to a thread, which may end."""

    def __init__(self, path: Path | None, connect: Callable[[], Connection]) -> None:
        """
        Args:
            path: the file; None means a database in memory, which has one connection.
            connect: opens a connection that is ready for use.
        """
        self._path, self._connect = path, connect
        self._idle: list[Connection] = []
        self._file: FileIdentity | None = None
        self._epoch = 0
        """A counter; connections of an earlier epoch must no longer be used."""
        self._lock, self._turn = threading.Lock(), threading.Lock()
        with _changed:
            _pools.add(self)

    @contextmanager
    def lent(
        self,
        turn: AbstractContextManager[object] | None = None,
        file: FileIdentity | None = None,
    ) -> Iterator[Connection]:
        """Lend a connection to the current file. It is closed if the block raises.

        Args:
            turn: a lock to hold in the block. It is taken here, after a running fork has ended:
                otherwise the fork and the holder of the lock could wait for each other.
            file: the identity of the file, if it was read just now.
        """
        # In memory there is only one connection, so its users take turns.
        with _no_fork(), turn or (self._turn if self._path is None else nullcontext()):
            connection, epoch = self._take(file)
            try:
                yield connection
            except BaseException:
                # In memory, the connection is the database, so it stays.
                if self._path is not None:
                    epoch = -1
                raise
            finally:
                self._give_back(connection, epoch)

    def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._epoch += 1
        for connection in idle:
            connection.close()

    def close_before_fork(self) -> None:
        if self._path is not None:
            self.close()

    def forget_locks(self) -> None:
        """Replace the locks after a fork: threads that the child does not have may hold them."""
        self._lock, self._turn = threading.Lock(), threading.Lock()

    def _take(self, file: FileIdentity | None) -> tuple[Connection, int]:
        # Read first, so that a connection to an earlier file is never reused for this one.
        if file is None and self._path is not None:
            file = file_identity(self._path)
        if file != self._file:
            # The file was removed or replaced: open connections use the previous file.
            self.close()
            self._file = file
        with self._lock:
            if self._idle:
                return self._idle.pop(), self._epoch
            epoch = self._epoch
        connection = self._connect()
        if self._file is None and self._path is not None:
            self._file = file_identity(self._path)  # connecting has just created it
        return connection, epoch

    def _give_back(self, connection: Connection, epoch: int) -> None:
        with self._lock:
            if epoch == self._epoch and len(self._idle) < _IDLE_KEPT:
                self._idle.append(connection)
                return
        connection.close()


_pools: WeakSet[SqlitePool] = WeakSet()
_users: list[int] = []
"""The threads that have connections, one entry per connection."""
_fork_begins = False
_changed = threading.Condition()


@contextmanager
def _no_fork() -> Iterator[None]:
    """Prevent forks of the process inside the block; wait for a fork that has begun."""
    thread = threading.get_ident()
    with _changed:
        # A thread that already has a connection may continue, because the fork waits for it.
        if _fork_begins:
            _changed.wait_for(lambda: not _fork_begins or thread in _users)
        _users.append(thread)
    try:
        yield
    finally:
        with _changed:
            _users.remove(thread)
            if _fork_begins:
                _changed.notify_all()


def _before_fork() -> None:
    global _fork_begins
    thread = threading.get_ident()
    with _changed:
        # Another thread may be about to fork as well.
        _changed.wait_for(lambda: not _fork_begins)
        _fork_begins = True
        _changed.wait_for(
            lambda: all(user == thread for user in _users), timeout=_SECONDS_BEFORE_A_FORK
        )
        pools = list(_pools)
    # A child must not use a connection of its parent: see https://sqlite.org/howtocorrupt.html.
    for pool in pools:
        pool.close_before_fork()


def _after_fork_in_parent() -> None:
    global _fork_begins
    with _changed:
        _fork_begins = False
        _changed.notify_all()


def _after_fork_in_child() -> None:
    global _changed, _fork_begins
    _changed, _fork_begins = threading.Condition(), False
    _users[:] = [user for user in _users if user == threading.get_ident()]
    for pool in list(_pools):
        pool.forget_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
