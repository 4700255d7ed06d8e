"""The door of the server: every request passes here, and every answer leaves here."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException

from lorebind.server.problems import ProblemError
from lorebind_knowledge.namespace import tenant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lorebind.server.doors.callers import Callers
    from lorebind.server.doors.hosts import Hosts
    from lorebind.server.doors.rates import Rates

MOST_BYTES = 8 * 1024 * 1024
REQUEST_SECONDS = 30.0
OPEN = frozenset({"/healthz", "/readyz"})
"""The paths that anyone may read."""
LATE = "late"
"""Where a route leaves, in the state of its request, the problem that says what becomes of the work
if the answer does not begin in time."""

log = logging.getLogger("lorebind.server")

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Door:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Hosts,
        callers: Callers,
        rates: Rates | None,
        is_draining: Callable[[], bool],
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        """
        Args:
            app: what is behind the door.
            hosts: the names of the server.
            callers: finds who calls.
            rates: how often; None is no limit.
            is_draining: whether the server is about to stop.
            seconds: how long an answer may take to begin.
        """
        self._app = app
        self._hosts, self._callers, self._rates = hosts, callers, rates
        self._is_draining = is_draining
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        passing = _Passing(scope, send, given if _REQUEST_ID.fullmatch(given) else _new_id())
        try:
            await self._let_in(passing, headers, receive)
        except ProblemError as problem:
            await passing.refuse(problem, receive)
        finally:
            passing.note()

    async def _let_in(self, passing: _Passing, headers: Headers, receive: Receive) -> None:
        scope = passing.scope
        self._hosts.check(headers)
        if scope["path"] in OPEN:
            await self._app(scope, receive, passing.send)
            return
        caller = await self._callers.of(headers)
        passing.caller = caller.name
        scope.setdefault("state", {})["caller"] = caller
        if self._rates is not None:
            passing.more |= self._rates.take(caller.name)
        if self._is_draining():
            raise ProblemError("draining", "the server is about to stop", headers=_AGAIN)
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > MOST_BYTES:
            raise too_large()
        with tenant(caller.tenant):
            answering = self._app(scope, _bounded(receive), passing.send)
            await self._in_time(passing, answering)

    async def _in_time(self, passing: _Passing, answering: Awaitable[None]) -> None:
        """Await an answer, which has to begin within the time; a stream may then go on."""
        task = asyncio.ensure_future(answering)
        begun = asyncio.ensure_future(passing.begun.wait())
        try:
            await asyncio.wait(
                {task, begun}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not task.done() and not passing.begun.is_set():
                late = ProblemError("timeout", f"this took longer than {self._seconds:g} s")
                raise passing.scope["state"].get(LATE, late)
            await task
        finally:
            begun.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


class _Passing:
    """One request on its way, and what its answer is to say."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.scope = scope
        self.caller = ""
        self.more: dict[str, str] = {
            "X-Request-ID": request_id,
            "X-Content-Type-Options": "nosniff",
        }
        self.begun = asyncio.Event()
        self._send = send
        self._status = 0
        self._since = time.monotonic()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self.begun.set()
            headers = MutableHeaders(scope=message)
            for name, value in self.more.items():
                headers[name] = value
        await self._send(message)

    async def refuse(self, problem: ProblemError, receive: Receive) -> None:
        if not self.begun.is_set():
            response = problem.response(self.scope["path"])
            await response(self.scope, receive, self.send)

    def note(self) -> None:
        """Write the request into the log; neither its query nor its texts."""
        told: dict[str, Any] = {
            "request_id": self.more["X-Request-ID"],
            "method": self.scope["method"],
            "route": getattr(self.scope.get("route"), "path", ""),
            "status": self._status,
            "seconds": round(time.monotonic() - self._since, 4),
            "caller": self.caller,
        }
        log.info("%s", json.dumps(told))


_AGAIN = {"Retry-After": "5"}


def _new_id() -> str:
    return uuid.uuid4().hex


def _bounded(receive: Receive) -> Receive:
    """What is received of a body, up to the most that one may have."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MOST_BYTES:
            # FastAPI lets only this one through while it reads a body.
            raise HTTPException(413)
        return message

    return bounded


def too_large() -> ProblemError:
    mib = MOST_BYTES // 1024**2
    return ProblemError("too_large", f"a request may have {mib} MiB; send less at a time")
