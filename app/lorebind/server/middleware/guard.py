"""The outermost layer of the server, which every request and every answer passes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from anyio import BrokenResourceError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from lorebind.server.bodies import MOST_VALUES, has_too_many_values
from lorebind.server.problems import RETRY_SECONDS, ProblemError, problem_of
from lorebind_config.checks.template_checks import texts
from lorebind_config.namespace import tenant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lorebind.server.middleware.callers import Callers, Rates
    from lorebind.server.middleware.hosts import Hosts

MOST_BYTES = 8 * 1024 * 1024
REQUEST_SECONDS = 30.0
UPLOADS = re.compile(r"/api/v0/knowledge-bases/[^/]+/unpack")
"""The paths whose bodies are files, with limits of their own."""
_UPLOAD_SECONDS = 3600.0
OPEN = frozenset({"/", "/docs", "/healthz", "/readyz"})
"""The paths that need no token, under any name of the server."""
PLAYGROUND = "/playground"
"""The path of the page; its files need no token either."""
_NONE_LONGER: Mapping[str, float] = {}
LATE = "late"
"""The key in a request's state where a route stores the problem to send if the answer does not
begin in time."""

log = logging.getLogger("lorebind.server")

_LENGTH = re.compile(r"[0-9]{1,18}")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class RequestGuard:
    """ASGI middleware that checks, limits and logs requests."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts,
        callers: Callers,
        rates: Rates | None,
        is_draining: Callable[[], bool],
        log_failure: Callable[[str, BaseException, Iterable[str]], None],
        seconds: float = REQUEST_SECONDS,
        longer: Mapping[str, float] = _NONE_LONGER,
        public: Collection[str] = (),
        most_upload_bytes: int = MOST_BYTES,
    ) -> None:
        """
        Args:
            app: the application behind it.
            hosts: the names of the server.
            callers: identifies the caller of a request.
            rates: the rate limit; None for no limit.
            is_draining: returns whether the server is about to stop.
            log_failure: logs unexpected errors, without the texts that the caller has sent.
            seconds: the time limit for an answer to begin.
            longer: other time limits, by path.
            public: further paths that need no token.
            most_upload_bytes: the largest body of a request to `UPLOADS`.
        """
        self._app = app
        self._hosts, self._callers, self._rates = hosts, callers, rates
        self._is_draining = is_draining
        self._log_failure = log_failure
        self._seconds, self._longer = seconds, longer
        self._public = public
        self._most_upload_bytes = most_upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            state = _RequestState(scope, receive, send)
            try:
                await self._in_time(state)
            finally:
                state.note()
        else:  # a WebSocket, which the server does not support
            await send({"type": "websocket.close", "code": 1008})

    async def _in_time(self, state: _RequestState) -> None:
        """Await an answer, which must begin within the time limit; a stream may then continue."""
        seconds = self._longer.get(state.scope["path"], self._seconds)
        if state.is_upload:
            seconds = max(seconds, _UPLOAD_SECONDS)
        task = asyncio.create_task(self._answer(state))
        begun = asyncio.create_task(state.begun.wait())
        try:
            await asyncio.wait({task, begun}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not state.begun.is_set():
                task.cancel()
                # Answers before the task has ended, because work in a thread cannot be cancelled.
                detail = f"the request took longer than {seconds:g} s and was cancelled"
                late = ProblemError("timeout", detail)
                await state.refuse(state.scope.get("state", {}).get(LATE, late))
            await asyncio.wait({task})
        finally:
            begun.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _answer(self, state: _RequestState) -> None:
        try:
            await self._let_in(state)
        except ProblemError as problem:
            await state.refuse(problem)
        except ClientDisconnect:  # nobody waits for the answer
            return
        except Exception as error:  # a bug in Lorebind or in the project's code
            if state.begun.is_set() and _is_disconnect(error):
                return
            self._log_failure(f"request {state.request_id} failed", error, state.sent())
            await state.refuse(problem_of(error))

    async def _let_in(self, state: _RequestState) -> None:
        scope = state.scope
        if scope["path"] in OPEN:
            await self._app(scope, state.receive, state.send)
            return
        headers = Headers(scope=scope)
        self._hosts.check(headers)
        path = scope["path"]
        if path in self._public or f"{path}/".startswith(f"{PLAYGROUND}/"):
            await self._app(scope, state.receive, state.send)
            return
        caller = await self._callers.of(headers, path)
        state.caller = caller.name
        scope.setdefault("state", {})["caller"] = caller
        if self._rates is not None:
            state.more |= self._rates.take(caller.name)
        if self._is_draining():
            raise ProblemError("draining", "the server is about to stop", headers=_AGAIN)
        most = self._most_upload_bytes if state.is_upload else MOST_BYTES
        _check_length(headers, most)
        receive = state.receive_upload(most) if state.is_upload else state.receive_bounded
        with nullcontext() if caller.tenant is None else tenant(caller.tenant):
            await self._app(scope, receive, state.send)


class _RequestState:
    """One request and the state of its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        self.request_id = request_id if _REQUEST_ID.fullmatch(request_id) else uuid.uuid4().hex
        self.caller = ""
        self.more: dict[str, str] = {
            "X-Request-ID": self.request_id,
            "X-Content-Type-Options": "nosniff",
        }
        self.begun = asyncio.Event()
        self.receive = receive
        self._body = bytearray()
        self._is_json = "json" in headers.get("content-type", "").lower()
        self._send = send
        self._method = scope["method"]
        # HEAD is answered like GET, without the body.
        self.scope = {**scope, "method": "GET"} if self._method == "HEAD" else scope
        self._status = 0
        self.is_upload = bool(UPLOADS.fullmatch(scope["path"]))
        """Whether its body is a file, which is not kept in memory."""
        self._is_over = False
        """Whether further messages of the application are dropped."""
        self._since = time.monotonic()

    async def receive_bounded(self) -> Message:
        """Receive a part of the body, and refuse the request if the body becomes too large."""
        message = await self.receive()
        self._body += message.get("body", b"")
        # FastAPI passes on only this exception while it reads a body.
        if len(self._body) > MOST_BYTES:
            raise HTTPException(413, _too_large(MOST_BYTES))
        if self._is_json and not message.get("more_body") and await has_too_many_values(self._body):
            raise HTTPException(413, f"a request may have at most {MOST_VALUES:,} JSON values")
        return message

    def receive_upload(self, most: int) -> Receive:
        """Return a function that receives a file in parts, and refuses it if it is too large."""
        left = most

        async def receive() -> Message:
            nonlocal left
            message = await self.receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, _too_large(most))
            return message

        return receive

    def sent(self) -> list[str]:
        """Return the texts of the query and of the part of the body that has been read."""
        sent = [value for _, value in parse_qsl(self.scope["query_string"].decode("latin-1"))]
        try:
            return sent + [text for _, text in texts(json.loads(self._body))]
        except (ValueError, RecursionError):
            return [*sent, self._body.decode("latin-1")]

    async def send(self, message: Message) -> None:
        """Send a message of the application."""
        if not self._is_over:
            await self._pass_on(message)

    async def refuse(self, problem: ProblemError) -> None:
        """Send a problem document, unless an answer has begun."""
        if not self.begun.is_set():
            self._is_over = True
            response = problem.response(self.scope["path"])
            await response(self.scope, self.receive, self._pass_on)

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self.begun.set()
            headers = MutableHeaders(scope=message)
            for name, value in self.more.items():
                headers[name] = value
        elif self._method == "HEAD":
            self._is_over = True
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def note(self) -> None:
        """Log the request, without its path, query and texts."""
        entry: dict[str, Any] = {
            "request_id": self.request_id,
            "method": self._method,
            "route": getattr(self.scope.get("route"), "path", ""),
            "status": self._status,
            "seconds": round(time.monotonic() - self._since, 4),
            "caller": self.caller,
        }
        log.info("%s", json.dumps(entry), extra={"event": "request", **entry})


def _is_disconnect(error: Exception) -> bool:
    """Return whether a client has left a stream of events, which FastAPI raises as an error."""
    return isinstance(error, ExceptionGroup) and error.split(BrokenResourceError)[1] is None


_AGAIN = {"Retry-After": str(RETRY_SECONDS)}


def _too_large(most: int) -> str:
    return f"a request may have at most {most // 1024**2} MiB; send less at a time"


def _check_length(headers: Headers, most: int) -> None:
    """Refuse a body whose Content-Length is too large.

    Raises:
        ProblemError: the body is too large, or the header is not a number.
    """
    lengths = set(headers.getlist("content-length")) or {"0"}
    if len(lengths) > 1 or not _LENGTH.fullmatch(declared := lengths.pop()):
        raise ProblemError("invalid_header", "Content-Length must be the number of bytes")
    if int(declared) > most:
        raise ProblemError("too_large", _too_large(most))
