"""Requests to a server, which return data or raise the server's errors."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from lorebind.plain_data import from_data
from lorebind.remote.errors import ServerError, error_of
from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.errors import LorebindError, Suggestion, UsageError
from lorebind_knowledge.resilience.failures import Failure, retry_after
from lorebind_knowledge.resilience.retries import Retries

TOKEN = "LOREBIND_TOKEN"
"""The environment variable that contains the token."""

_RETRY = RetryConfig(attempts=4, backoff_ms=0, max_backoff_ms=30_000)
"""No wait of its own, because an answer that asks for a retry says after how many seconds."""
_BUSY = (429, 503)
_BLOCK = 1 << 20
_PAGE = 100  # the largest that a server sends
_PREFIX, _UNIX = "/api/v0", "unix:"
_CONNECT_SECONDS, _ANSWER_SECONDS = 10, 60
"""Timeouts in seconds. A server answers within 30; event streams send a comment every 15."""

_TRIES = 20
"""Number of attempts in a row to reach a server that was reached before."""
_PAUSE_SECONDS = 1.5
"""Seconds between them."""

T = TypeVar("T")


class SentEvent(NamedTuple):
    """A server-sent event."""

    id: str
    name: str
    data: Any


class _Blocks:
    """The bytes of a file, again for each attempt to send them."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        with self._file.open("rb") as opened:
            while block := opened.read(_BLOCK):
                yield block


class ConnectionLostError(ServerError):
    """The server cannot be reached, or the connection was lost."""

    may_pass = True

    def __init__(self, message: str, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        """Whether the server may have received the request."""


class Connection:
    """A connection to a server."""

    def __init__(self, url: str, tenant: str | None = None) -> None:
        """
        Args:
            url: `http://…`, `https://…`, or `unix:` and the path of a socket.
            tenant: the tenant; None uses the server's default.

        Raises:
            UsageError: the URL is not valid.
        """
        headers = {"Accept": "application/json"}
        if token := os.environ.get(TOKEN):
            headers["Authorization"] = f"Bearer {_for_header(token, TOKEN)}"
        if tenant is not None:
            headers["X-Tenant-ID"] = _for_header(tenant, "--tenant")
        self.url, self.tenant = url, tenant
        self._client = _client_of(url, headers)

    def get(self, path: str, **parameters: Any) -> Any:
        """Get the data at a path; parameters that are None are omitted.

        Raises:
            LorebindError: the server's error, or `ServerError`.
        """
        return self.send("GET", path, params=_without_none(parameters)).json()

    def all(self, path: str, *, most: int | None = None, **parameters: Any) -> list[Any]:
        """Return the items of all pages of a list, or only the first `most`.

        Raises:
            LorebindError: as for `get`.
        """
        items: list[Any] = []
        cursor = None
        while True:
            page = self.get(path, limit=_PAGE, cursor=cursor, **parameters)
            items += page["items"]
            cursor = page["next"]
            if cursor is None or (most is not None and len(items) >= most):
                return items[:most]

    def post(self, path: str, body: Any) -> Any:
        """Send data, and return the data of the answer.

        Raises:
            LorebindError: as for `get`.
        """
        return self.send("POST", path, json=body).json()

    def post_patiently(self, path: str, body: Any) -> Any:
        """Send data as `post` does, without the server's time limit for an answer.

        Raises:
            LorebindError: as for `get`.
        """
        return self._awaited("POST", path, json=body)

    def delete_patiently(self, path: str, **parameters: Any) -> None:
        """Delete a resource, however long that takes; parameters that are None are omitted.

        Raises:
            LorebindError: as for `get`.
        """
        self._awaited("DELETE", path, params=_without_none(parameters))

    def download(self, path: str, *, method: str = "POST", **parameters: Any) -> Iterator[bytes]:
        """Yield the bytes of a file that the server makes; parameters that are None are omitted.

        Raises:
            LorebindError: as for `get`, or while the bytes are read.
        """
        response = self._answer(method, path, stream=True, params=_without_none(parameters))
        with closing(response), self._naming_server():
            yield from response.iter_bytes()

    def upload(self, path: str, file: Path, **parameters: Any) -> Any:
        """Send a file, and return the data of the answer, however long that takes.

        Raises:
            LorebindError: as for `get`.
        """
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(file.stat().st_size),
        }
        params = _without_none(parameters)
        return self._awaited("POST", path, content=_Blocks(file), headers=headers, params=params)

    def _awaited(self, method: str, path: str, **options: Any) -> Any:
        """Return the data of the only event that answers a request."""
        with self.events(method, path, **options) as events:
            for event in events:
                if event.name == "error":
                    raise self.error_of(event.data)
                return event.data
        raise ConnectionLostError(f"the server at {self.url} disconnected before it answered")

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request and return the answer; retry a few times if the answer says when.

        Args:
            method: the HTTP method.
            path: the path.
            options: options of httpx.

        Raises:
            LorebindError: as for `get`.
        """
        return self._checked(self._answer(method, path, **options))

    @contextmanager
    def events(
        self, method: str, path: str, after: str | None = None, **options: Any
    ) -> Iterator[Iterator[SentEvent]]:
        """Receive the server-sent events of a path.

        Args:
            method: as for `send`.
            path: as for `send`.
            after: the id of the last known event.
            options: as for `send`.

        Raises:
            LorebindError: as for `get`, or while the events are read.
        """
        headers = {"Accept": "text/event-stream", **options.pop("headers", {})}
        if after is not None:
            headers["Last-Event-ID"] = after
        response = self._answer(method, path, stream=True, headers=headers, **options)
        with closing(response), self._naming_server():
            yield _events(_lines(response.iter_bytes()))

    def send_once(self, path: str, body: Any) -> Any:
        """Send data with a key, so that the server acts once however often the connection is lost.

        Raises:
            LorebindError: as for `get`.
        """
        headers = {"Prefer": "respond-async", "Idempotency-Key": uuid.uuid4().hex}
        tries = 0
        while True:
            try:
                return self.send("POST", path, json=body, headers=headers).json()
            except ConnectionLostError as error:
                # A first attempt that reaches nobody has a wrong address; later ones know that the
                # server exists.
                if not (error.was_sent or tries) or tries >= _TRIES:
                    raise
            tries += 1
            time.sleep(_PAUSE_SECONDS)

    def follow(self, path: str, goes_on: str, **options: Any) -> Generator[SentEvent, None, None]:
        """Yield the server-sent events of a run, and reconnect whenever the connection is lost.

        It does not end by itself: the caller knows the last event.

        Args:
            path: as for `send`.
            goes_on: the end of the message if the server cannot be reached for long.
            options: as for `send`.

        Raises:
            LorebindError: as for `get`.
        """
        last: str | None = None
        tries = 0
        while True:
            try:
                with self.events("GET", path, last, **options) as events:
                    for event in events:
                        tries, last = 0, event.id or last
                        yield event
            except ServerError as error:
                if not error.may_pass or tries >= _TRIES:
                    raise ServerError(f"{error}; {goes_on}", error.code) from None
            tries += 1
            time.sleep(_PAUSE_SECONDS)

    def error_of(self, document: dict[str, Any], retry_after: float = 0) -> LorebindError:
        """Return the error of a problem document, with commands that work on this machine."""
        detail, suggestions = str(document.get("detail")), []
        for item in document.get("suggestions") or []:
            command = self.command(Suggestion(item["command"]))
            detail = detail.replace(item["text"], command)
            suggestions.append(Suggestion(command))
        error = error_of(document | {"detail": detail}, retry_after)
        error.suggestions = suggestions
        return error

    def command(self, suggestion: Suggestion) -> str:
        """Return a command with the options that name this server and tenant."""
        return suggestion.on_server(self.url, self.tenant)

    def complete(self, error: dict[str, Any] | None, text: str = "message") -> None:
        """Do the same for the command in the text of a stored error."""
        if error and (command := error.get("command")):
            error["command"] = self.command(Suggestion(command))
            error[text] = error[text].replace(command, error["command"])

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _naming_server(self) -> Iterator[None]:
        """Turn connection errors within the block into errors of one line."""
        try:
            yield
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
            raise ConnectionLostError(
                f"the server at {self.url} cannot be reached: {why}",
                was_sent=not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout),
            ) from None
        except httpx.InvalidURL as error:
            raise UsageError(f"this request cannot be sent to the server: {error}") from None

    def _answer(
        self, method: str, path: str, *, stream: bool = False, **options: Any
    ) -> httpx.Response:
        """Send a request until it succeeds; the body of a stream is not read."""

        def attempt() -> httpx.Response:
            with self._naming_server():
                request = self._client.build_request(method, path, **options)
                response = self._client.send(request, stream=stream)
                if not response.is_success:
                    response.read()
                return response.raise_for_status()

        retries = Retries(
            limits=_RETRY,
            on=httpx.HTTPStatusError,
            classify=lambda error: _failure(error.response),
            final_error=lambda error, *_: self._error(error.response),
        )
        return retries.call_sync(attempt)

    def _checked(self, response: httpx.Response) -> httpx.Response:
        kind = response.headers.get("content-type", "")
        if response.status_code != 204 and not kind.startswith("application/json"):
            raise self._is_another(response)
        return response

    def _error(self, response: httpx.Response) -> Exception:
        try:
            document = response.json()
            if not isinstance(document, dict) or "code" not in document:
                raise ValueError
        except ValueError:
            if response.status_code in (502, 503, 504):  # from a proxy in front of the server
                answered = f"the server at {self.url} answers with {response.status_code}"
                return ServerError(f"{answered} {response.reason_phrase}")
            return self._is_another(response)
        return self.error_of(document, retry_after(response.headers) or 0)

    def _is_another(self, response: httpx.Response) -> UsageError:
        return UsageError(
            f"{self.url} is not a Lorebind server: it answers with {response.status_code} "
            f"{response.reason_phrase}"
        )


def _client_of(url: str, headers: dict[str, str]) -> httpx.Client:
    """Return an HTTP client for a server.

    Args:
        url: `http://…`, `https://…`, or `unix:` and the path of a socket.
        headers: sent with every request.

    Raises:
        UsageError: the URL is not valid.
    """
    timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
    if url.startswith(_UNIX):
        path = url.removeprefix(_UNIX)
        if not path:
            raise _wrong(url, "the path of the socket is missing")
        transport = httpx.HTTPTransport(uds=path)
        base = f"http://localhost{_PREFIX}"
        return httpx.Client(transport=transport, base_url=base, headers=headers, timeout=timeout)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        if parts.username is not None or parts.password is not None:
            raise UsageError("a server's URL must not contain a password; set LOREBIND_TOKEN")
        if parts.scheme not in ("http", "https") or not host:
            raise _wrong(url, "it must begin with http://, https:// or unix:")
        if parts.query or parts.fragment:
            raise _wrong(url, "it must end with the host, port or path")
        base = f"{url.rstrip('/').removesuffix(_PREFIX)}{_PREFIX}"
        return httpx.Client(base_url=base, headers=headers, timeout=timeout)
    except (ValueError, httpx.InvalidURL) as error:
        if isinstance(error, UsageError):
            raise
        raise _wrong(url, str(error)) from None


def _wrong(url: str, why: str) -> UsageError:
    return UsageError(f"{url!r} is not a valid server URL: {why}")


def read(kind: type[T], data: Any) -> T:
    """Convert an answer to a value of a kind.

    Raises:
        ServerError: the answer is of another kind.
    """
    try:
        value: T = from_data(kind, data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServerError(
            f"the server's answer is not a valid {getattr(kind, '__name__', kind)}; is it another "
            "version of Lorebind?"
        ) from error
    return value


def segment(text: str) -> str:
    """Quote a text as one segment of a path."""
    # httpx would resolve `.` and `..`, unless they are quoted too.
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


def _for_header(text: str, name: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    raise UsageError(f"{name} cannot be sent to a server: it contains more than plain ASCII")


def _without_none(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _failure(response: httpx.Response) -> Failure:
    """Retry a request that the server wants again soon."""
    wait = retry_after(response.headers)
    is_soon = wait is not None and wait <= _RETRY.max_backoff_ms / 1000
    # A request that has started a workflow would start it again.
    has_begun = b'"thread_id"' in response.content
    again = response.status_code in _BUSY and is_soon and not has_begun
    return Failure("again" if again else "final", wait=wait)


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Yield the lines of a stream. httpx would also split them at characters that texts may
    contain."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode()


def _events(lines: Iterator[str]) -> Iterator[SentEvent]:
    """Parse server-sent events (https://html.spec.whatwg.org/#event-stream-interpretation)."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                name = fields.get("event", "message")
                yield SentEvent(fields.get("id", ""), name, json.loads(fields["data"]))
            fields = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
