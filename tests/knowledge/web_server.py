"""A web server on the loopback interface whose answers are set by the test."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Misbehave: TypeAlias = "Callable[[BaseHTTPRequestHandler, threading.Event], None]"
"""Writes to the connection itself, until the event signals that the server stops."""


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True)
class Request:
    """A received request."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Headers by lower-case name."""


class WebServer:
    """A server of `routes`: each target has an answer, a list of answers in turn, or a function."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None):
        self.routes: dict[str, Answer | list[Answer] | Callable[[Request], Answer] | Any] = {}
        self.otherwise: Any = Answer(b"gone", status=404)
        """Route for all other targets."""
        self.requests: list[Request] = []
        self._stopping = threading.Event()
        self._server = _Server((host, port), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.host, self.port = self._server.server_address[:2]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def connections(self) -> int:
        """Number of connections, with or without requests."""
        return len(self._server.accepted)

    def url(self, target: str = "/", host: str | None = None) -> str:
        return f"http://{host or self.host}:{self.port}{target}"

    def close(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        for connection in self._server.accepted:
            with suppress(OSError):  # it is closed already; others are kept open for more requests
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.command, handler.path, headers)
        self.requests.append(request)
        route = self.routes.get(handler.path, self.otherwise)
        if isinstance(route, list):
            route = route.pop(0) if len(route) > 1 else route[0]
        if getattr(route, "misbehaves", False):
            handler.close_connection = True
            with suppress(OSError):  # the client has closed the connection
                route(handler, self._stopping)
            return
        answer = route(request) if callable(route) else route
        handler.send_response_only(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.status != 304:
            handler.send_header("Content-Length", str(len(answer.body)))
        handler.end_headers()
        if request.method != "HEAD":
            handler.wfile.write(answer.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.accepted: list[socket.socket] = []
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        request = super().get_request()
        self.accepted.append(request[0])
        return request

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of clients that disconnect, which these tests cause on purpose."""


def _handler(server: WebServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def do_GET(self) -> None:
            server.answer(self)

        do_HEAD = do_GET  # noqa: N815  # it is what the library calls it

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


def misbehaving(route: Misbehave) -> Misbehave:
    """Mark a route that writes to the connection itself."""
    route.misbehaves = True  # type: ignore[attr-defined]
    return route


@misbehaving
def endless(handler: BaseHTTPRequestHandler, stopping: threading.Event) -> None:
    """Send a body that never ends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while not stopping.is_set():
        handler.wfile.write(b"x" * 65536)


@misbehaving
def drip(handler: BaseHTTPRequestHandler, stopping: threading.Event) -> None:
    """Send a body one byte at a time, with pauses short enough that no single read times out."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not stopping.wait(0.02):
        handler.wfile.write(b"x")


@misbehaving
def silent(handler: BaseHTTPRequestHandler, stopping: threading.Event) -> None:
    """Send no answer."""
    stopping.wait(10)


@misbehaving
def hangs_up(handler: BaseHTTPRequestHandler, stopping: threading.Event) -> None:
    """Close the connection in the middle of the body."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
