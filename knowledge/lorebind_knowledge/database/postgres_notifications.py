"""Notifications of PostgreSQL, received by a thread over a connection of its own."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from lorebind_config.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from lorebind_knowledge.database.databases import PostgresDatabase

_PAUSE_SECONDS = 0.5
"""Seconds until the thread looks for new channels, or connects again."""
_log = logging.getLogger("lorebind")
_PROBE, _PROBE_SECONDS = "lorebind_probe", 5.0


class Notifications:
    """Calls functions when notifications arrive. They run in a thread, and must not block.

    All notifications of a process from one PostgreSQL share a connection. Those that come during an
    outage are lost: callers look at the tables from time to time too.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.listeners: dict[str, Callable[[str], object]] = {}
        """The functions by channel."""
        self._receiver: _Receiver | None = None

    @property
    def are_received(self) -> bool:
        """Whether the connection is open at the moment."""
        return self._receiver is not None and self._receiver.is_connected

    def listen(self, channel: str, on_payload: Callable[[str], object]) -> None:
        """Call a function with the payload of each notification of a channel, from soon on."""
        self.listeners[channel] = on_payload
        with _lock:
            key = (os.getpid(), self._database.key)
            receiver = _receivers.get(key)
            if receiver is None or not receiver.enter(self):
                receiver = _receivers[key] = _Receiver(self._database, self)
            self._receiver = receiver

    def stop(self, channel: str) -> None:
        self.listeners.pop(channel, None)

    def close(self) -> None:
        self.listeners.clear()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.leave(self)


class _Receiver:
    """A thread with the connection of all `Notifications` of a process from one database."""

    def __init__(self, database: PostgresDatabase, first: Notifications) -> None:
        self._database = database
        self._members = [first]
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self.is_connected = False
        self._thread = threading.Thread(
            target=self._receive, name="lorebind-notifications", daemon=True
        )
        self._thread.start()

    def enter(self, member: Notifications) -> bool:
        """Receive for another one too; return whether that is possible: this one may have ended."""
        with self._changing:
            if not self._closed.is_set() and member not in self._members:
                # A new list, because the thread may be going through the previous one.
                self._members = [*self._members, member]
            return not self._closed.is_set() and self._thread.is_alive()

    def leave(self, member: Notifications) -> None:
        """End for one of them. The last one waits until the connection is closed."""
        with self._changing:
            self._members = [each for each in self._members if each is not member]
            if self._members:
                return
            self._closed.set()
        self._thread.join()

    def _receive(self) -> None:
        while not self._closed.is_set():
            try:
                with self._database.session() as connection:
                    self._serve(connection)
            except StoreError:
                self._closed.wait(_PAUSE_SECONDS)
            finally:
                self.is_connected = False

    def _serve(self, connection: psycopg.Connection) -> None:
        heard: set[str] = set()
        while not self._closed.is_set():
            needed = {channel for member in self._members for channel in list(member.listeners)}
            for channel in needed - heard:
                connection.execute(f'listen "{channel}"')
                heard.add(channel)
            # Only now: what was sent before `listen` never arrives.
            self.is_connected = True
            for notification in connection.notifies(timeout=_PAUSE_SECONDS):
                for member in self._members:
                    on_payload = member.listeners.get(notification.channel)
                    if on_payload is not None:
                        _call(on_payload, notification.payload)


def _call(on_payload: Callable[[str], object], payload: str) -> None:
    try:
        on_payload(payload)
    except Exception:  # such as that of a closed event loop; the others go on
        _log.exception("a notification was not received")


_receivers: WeakValueDictionary[tuple[int, str], _Receiver] = WeakValueDictionary()
"""By process and database."""
_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _lock  # a thread that does not exist here may hold it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def refuse_pooler(database: PostgresDatabase) -> None:
    """Check that notifications arrive, which a pooler in transaction mode drops.

    Raises:
        StoreError: they do not.
    """
    with database.session() as connection:
        ((process,),) = connection.execute("select pg_backend_pid()").fetchall()
        if process == connection.info.backend_pid:
            return  # there is no pooler, because poolers announce numbers of their own
        connection.execute(f"listen {_PROBE}")
        with database.session() as other:
            other.execute(f"notify {_PROBE}")
        if not list(connection.notifies(timeout=_PROBE_SECONDS, stop_after=1)):
            raise StoreError(
                f"{database}: a connection pooler in transaction mode is in between, which drops "
                "notifications and locks of sessions; connect to PostgreSQL itself, or to a "
                "pooler in session mode"
            )
