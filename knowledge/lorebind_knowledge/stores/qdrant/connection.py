"""How Qdrant is reached: a server or a folder, opened when first asked, its errors in words."""

from __future__ import annotations

import json
import math
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from lorebind_knowledge.data_folder import make_data_folder
from lorebind_knowledge.errors import LorebindError, StoreError
from lorebind_knowledge.extras import import_extra
from lorebind_knowledge.redaction import said_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdrant_client import QdrantClient

R = TypeVar("R")


def qdrant(module: str = "qdrant_client") -> Any:
    """A module of qdrant-client, which takes a second to load."""
    return import_extra(module, extra="qdrant", purpose="a vector database of type qdrant")


def collection_is_missing(error: StoreError) -> bool:
    """Whether a request failed because there is no such collection, as server or local mode say."""
    cause = error.__cause__
    if isinstance(cause, ValueError):
        return "not found" in str(cause)
    return getattr(cause, "status_code", None) == 404


class QdrantConnection:
    """One server, folder or memory, asked from any thread.

    qdrant-client's local mode is not made for threads and locks its folder against any other
    client: `turn` is held over each operation there, and those who name the same folder in one
    process share one client. A server needs neither.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        address_as_written: str | None = None,
        path: Path | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 10,
        consistency: str | None = None,
    ) -> None:
        """
        Args:
            url: the server; None for local mode.
            address_as_written: how messages name the server; `url` when left out.
            path: the folder of local mode; None, without a url, keeps everything in memory.
            api_key: sent with every request.
            timeout_seconds: of each request, rounded up to whole seconds.
            consistency: how many replicas must agree on a read; None is one.
        """
        self.is_local = url is None
        self.reads: dict[str, Any] = {} if consistency is None else {"consistency": consistency}
        self._url, self._api_key, self._timeout = url, api_key, timeout_seconds
        self._address = address_as_written or url or ""
        self._folder = None if path is None else path.absolute()
        self._opening = threading.Lock()
        self._local: _Local | None = None
        self._remote: tuple[int, QdrantClient] | None = None
        self._closed = False

    @property
    def exists(self) -> bool:
        """False for a folder that nothing has been written to; asking makes none."""
        return self._folder is None or (self._folder / "meta.json").exists()

    def turn(self) -> AbstractContextManager[object]:
        """Held over an operation of several steps where nobody else may come between."""
        self._check_usable()
        return self._shared().lock if self.is_local else nullcontext()

    def ask(self, request: Callable[[QdrantClient], R]) -> R:
        """What a request to the client gives.

        Raises:
            StoreError: naming the place, what it said, and the way out.
        """
        with self.turn():
            try:
                return request(self._client())
            except LorebindError:
                raise
            except Exception as error:  # the client's own, httpx's, pydantic's, sqlite3's
                raise StoreError(f"{self}: {self._advice(error)}") from error

    def close(self) -> None:
        with self._opening:
            self._closed = True
            remote, self._remote = self._remote, None
            local, self._local = self._local, None
        if remote is not None and remote[0] == os.getpid():
            remote[1].close()
        if local is not None:
            _release(local)

    def __str__(self) -> str:
        if self._url is None:
            return f"qdrant store {self._folder or 'in memory'}"
        parts = urlsplit(self._address)
        return f"qdrant store {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()}"

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreError(f"{self}: the store is closed")

    def _client(self) -> QdrantClient:
        if self.is_local:
            return self._shared().client()
        with self._opening:
            self._check_usable()
            # A child process must not share its parent's sockets.
            if self._remote is None or self._remote[0] != os.getpid():
                self._remote = os.getpid(), self._connect()
            return self._remote[1]

    def _connect(self) -> QdrantClient:
        client: QdrantClient = qdrant().QdrantClient(
            url=self._url,
            api_key=self._api_key,
            timeout=math.ceil(self._timeout),
            check_compatibility=False,  # it would ask the server for its version here and now
        )
        return client

    def _shared(self) -> _Local:
        with self._opening:
            self._check_usable()
            if self._local is None:
                self._local = _acquire(self._folder)
            if self._local.process != os.getpid():
                raise StoreError(
                    f"{self}: was opened before this process was forked, and serves one process "
                    "only; open the project after the fork, or use a Qdrant server"
                )
            return self._local

    def _advice(self, error: Exception) -> str:
        said = _server_said(error) or self._said(error)
        if self.is_local:
            return f"the operation failed: {said}; check the folder and your rights"
        exceptions = qdrant("qdrant_client.http.exceptions")
        if isinstance(error, exceptions.ResponseHandlingException):
            return (
                f"no usable answer: {self._said(error.source)}; check that the server runs and "
                f"answers within timeout_seconds, and that the url is right"
            )
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return f"the server refuses the api key ({status}); check auth.api_key"
        if status == 404:
            return (
                f"a collection is gone: {said}; restore it, or build the index anew with: "
                "lorebind knowledge ingest --strategy replace"
            )
        return f"the server refused a request: {said}"

    def _said(self, error: Exception) -> str:
        hidden = {} if self._address == self._url else {self._url or "": self._address}
        return said_by(error, written="", resolved=self._api_key or "", values=hidden)


def _server_said(error: Exception) -> str:
    """The words of a server in an answer that is an error, nothing for other errors."""
    try:
        return str(json.loads(getattr(error, "content", b""))["status"]["error"])
    except (ValueError, TypeError, LookupError):
        return ""


class _Local:
    """Local mode in one folder or in memory, shared by the connections of a process."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self.process = os.getpid()
        self.lock = threading.RLock()
        self.users = 0
        self._client: QdrantClient | None = None

    def client(self) -> QdrantClient:
        """To be asked for under the lock. The folder is made when it is asked for first."""
        if self._client is None:
            self._client = self._open()
        return self._client

    def close(self) -> None:
        with self.lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> QdrantClient:
        client = qdrant().QdrantClient
        # Whoever holds the lock uses its sqlite3 connections, whatever the thread.
        if self.folder is None:
            in_memory: QdrantClient = client(":memory:", force_disable_check_same_thread=True)
            return in_memory
        try:
            make_data_folder(Path(self.folder))
            opened: QdrantClient = client(path=self.folder, force_disable_check_same_thread=True)
        except RuntimeError as error:  # what local mode raises for a folder that is locked
            raise StoreError(
                f"qdrant store {self.folder}: another process uses the folder, and local mode "
                "serves one at a time; let that one end, or use a Qdrant server"
            ) from error
        except (OSError, ValueError) as error:
            raise StoreError(
                f"qdrant store {self.folder}: cannot be opened: {error}; check the folder and your "
                "rights, or move it away and ingest again"
            ) from error
        return opened


_folders: dict[str, _Local] = {}
_folders_lock = threading.Lock()


def _acquire(folder: Path | None) -> _Local:
    if folder is None:
        return _Local(None)
    name = os.path.realpath(folder)
    with _folders_lock:
        known = _folders.get(name)
        if known is None or known.process != os.getpid():
            known = _folders[name] = _Local(name)
        known.users += 1
        return known


def _release(local: _Local) -> None:
    if local.process != os.getpid():
        return
    with _folders_lock:
        local.users -= 1
        if local.users > 0:
            return
        if local.folder is not None:
            _folders.pop(local.folder, None)
        local.close()


def make_collection(connection: QdrantConnection, name: str, **settings: Any) -> None:
    """Make a collection unless it is there; two that make it at once both succeed."""
    if collection_exists(connection, name):
        return
    try:
        connection.ask(lambda client: client.create_collection(name, **settings))
    except StoreError:
        if not collection_exists(connection, name):
            raise


def collection_exists(connection: QdrantConnection, name: str) -> bool:
    return connection.ask(lambda client: client.collection_exists(name))
