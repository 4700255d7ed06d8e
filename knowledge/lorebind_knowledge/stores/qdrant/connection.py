"""Connections to Qdrant, on a server or in a folder, opened on first use; and their errors."""

from __future__ import annotations

import json
import math
import os
import threading
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from lorebind_config.errors import LorebindError, StoreError
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.stores.qdrant.local_mode import acquire, qdrant, release

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qdrant_client import QdrantClient

    from lorebind_knowledge.stores.qdrant.local_mode import LocalClient

R = TypeVar("R")


def collection_is_missing(error: StoreError) -> bool:
    """Return whether a request failed because its collection is missing, remote or local.

    A 404 without Qdrant's error message comes from another server: the address is wrong.
    """
    cause = error.__cause__
    if isinstance(cause, ValueError):
        return "not found" in str(cause)
    return getattr(cause, "status_code", None) == 404 and bool(_server_said(cause))


class QdrantConnection:
    """A connection to a server, a folder or memory, usable from any thread."""

    def __init__(
        self,
        *,
        url: str | None = None,
        address_as_written: str | None = None,
        path: Path | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 10,
    ) -> None:
        """
        Args:
            url: the server, for example http://host:6333; None means qdrant-client's local mode.
            address_as_written: the name of the server in messages; by default `url`.
            path: the folder of local mode, for small data and one process. Without a path and a
                url, everything is kept in memory.
            api_key: sent with every request.
            timeout_seconds: limit per request, rounded up to whole seconds.
        """
        self.is_local = url is None
        self.persistent = url is not None or path is not None
        self._url, self._api_key, self._timeout = url, api_key, timeout_seconds
        self._address = address_as_written or url or ""
        self._folder = None if path is None else path.absolute()
        self._opening = threading.Lock()
        self._local: LocalClient | None = None
        self._remote: tuple[int, QdrantClient] | None = None
        self._closed = False

    def exists(self) -> bool:
        """Return False for a folder that was never written; do not create the folder."""
        self._check_usable()
        return self._folder is None or (self._folder / "meta.json").exists()

    def ask(self, request: Callable[[QdrantClient], R]) -> R:
        """Return the result of a request to the client.

        Raises:
            StoreError: the request failed. The message has the location, the error and a suggested
                fix.
        """
        try:
            if not self.is_local:
                return request(self._server())
            with self._shared().lent() as client:
                return request(client)
        except LorebindError:
            raise
        except Exception as error:  # errors of the client, httpx, pydantic or sqlite3
            raise StoreError(f"{self}: {self._advice(error)}") from error

    def close(self) -> None:
        with self._opening:
            self._closed = True
            remote, self._remote = self._remote, None
            local, self._local = self._local, None
        if remote is not None and remote[0] == os.getpid():
            remote[1].close()
        if local is not None:
            release(local)

    def __str__(self) -> str:
        if self.is_local:
            return f"qdrant store {self._folder or 'in memory'}"
        parts = urlsplit(self._address)
        return f"qdrant store {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()}"

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreError(f"{self}: the store is closed")

    def _shared(self) -> LocalClient:
        with self._opening:
            self._check_usable()
            if self._local is None:
                self._local = acquire(self._folder)
            return self._local

    def _server(self) -> QdrantClient:
        with self._opening:
            self._check_usable()
            # A child process must not share its parent's sockets.
            if self._remote is None or self._remote[0] != os.getpid():
                client = qdrant().QdrantClient(
                    url=self._url,
                    api_key=self._api_key,
                    timeout=math.ceil(self._timeout),
                    check_compatibility=False,  # would request the server's version immediately
                )
                self._remote = os.getpid(), client
            return self._remote[1]

    def _advice(self, error: Exception) -> str:
        message = _server_said(error) or self._redacted(error)
        if self.is_local:
            return f"the operation failed: {message}; check the folder and its permissions"
        exceptions = qdrant("qdrant_client.http.exceptions")
        if isinstance(error, exceptions.ResponseHandlingException):
            return (
                f"no usable answer: {self._redacted(error.source)}; check that the server runs and "
                f"answers within timeout_seconds, and that the url is right"
            )
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return f"the server refuses the api key ({status}); check auth.api_key"
        if status == 404 and not _server_said(error):
            return "the server at this url is not Qdrant (404); check the url"
        return f"the server refused a request: {message}"

    def _redacted(self, error: Exception) -> str:
        hidden = {} if self._address == self._url else {self._url or "": self._address}
        return redacted_message(error, written="", resolved=self._api_key or "", values=hidden)


def _server_said(error: BaseException | None) -> str:
    """Return the message in a server's error response, or an empty text for other errors."""
    try:
        return str(json.loads(getattr(error, "content", b""))["status"]["error"])
    except (ValueError, TypeError, LookupError):
        return ""
