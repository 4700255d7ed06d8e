"""Notifications of PostgreSQL, received by a thread over a connection of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lorebind_config.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from lorebind_knowledge.database.databases import PostgresDatabase

_PAUSE_SECONDS = 0.5
"""Seconds until the thread looks for new channels, or connects again."""
_PROBE, _PROBE_SECONDS = "lorebind_probe", 5.0


class Notifications:
    """Calls functions when notifications arrive. They run in the thread, and must not block.

    Notifications during an outage are lost: callers look at the tables from time to time too.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._listeners: dict[str, Callable[[str], object]] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.are_received = False
        """Whether the connection is open at the moment."""

    def listen(self, channel: str, on_payload: Callable[[str], object]) -> None:
        """Call a function with the payload of each notification of a channel, from soon on."""
        with self._lock:
            self._listeners[channel] = on_payload
            if self._thread is None or not self._thread.is_alive():  # as after a fork
                self._closed.clear()
                self._thread = threading.Thread(
                    target=self._receive, name="lorebind-notifications", daemon=True
                )
                self._thread.start()

    def stop(self, channel: str) -> None:
        with self._lock:
            self._listeners.pop(channel, None)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            thread, self._thread = self._thread, None
            self._listeners.clear()
        if thread is not None:
            thread.join()

    def _receive(self) -> None:
        while not self._closed.is_set():
            try:
                with self._database.session() as connection:
                    self._serve(connection)
            except StoreError:
                self._closed.wait(_PAUSE_SECONDS)
            finally:
                self.are_received = False

    def _serve(self, connection: psycopg.Connection) -> None:
        heard: set[str] = set()
        while not self._closed.is_set():
            for channel in self._listeners.keys() - heard:
                connection.execute(f'listen "{channel}"')
                heard.add(channel)
            self.are_received = True
            for notification in connection.notifies(timeout=_PAUSE_SECONDS):
                on_payload = self._listeners.get(notification.channel)
                if on_payload is not None:
                    on_payload(notification.payload)


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
