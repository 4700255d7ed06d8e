"""A proxy for a server whose connections can be cut, at both ends or at the client's end only."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Cable:
    """Forwards TCP connections to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._changing = threading.Lock()
        self._ends: list[tuple[socket.socket, socket.socket]] = []
        """The client's and the server's ends of all connections, including those that were cut."""
        self._cut = 0
        """Number of connections that were cut; they are the first in the list."""
        self._is_broken = False
        self._sign: bytes | None = None
        self.has_lost = threading.Event()
        """Set when the bytes given to `lose` were lost."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *, closed: bool, mended: bool) -> None:
        """End all connections, the server's ends only if `closed`; new ones need `mended`."""
        with self._changing:
            self._is_broken = not mended
            first, self._cut = self._cut, len(self._ends)
            for client, server in self._ends[first:]:
                _shut(client)
                if closed:
                    _shut(server)

    def lose(self, sign: bytes) -> None:
        """Drop these bytes of a connection and everything after them; both ends stay open."""
        self._sign = sign

    def close(self) -> None:
        self.cut(closed=True, mended=False)
        _shut(self._listener)
        self._listener.close()
        with self._changing:
            for pair in self._ends:
                for end in pair:
                    _shut(end)
                    end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._changing:
                    if self._is_broken:
                        client.close()
                        continue
                    server = socket.create_connection(("127.0.0.1", self._server))
                    number = len(self._ends)
                    self._ends.append((client, server))
                for ends in ((client, server), (server, client)):
                    carry = threading.Thread(target=self._carry, args=(number, *ends), daemon=True)
                    carry.start()

    def _carry(self, number: int, source: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._sign is not None and self._sign in data:
                    self.has_lost.set()
                    return
                other.sendall(data)
        with self._changing:
            if number >= self._cut:
                _shut(other)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
