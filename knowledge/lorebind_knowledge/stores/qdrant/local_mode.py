"""qdrant-client's local mode: only one process can use a folder, with only one client."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import StoreError
from lorebind_config.plugins import import_extra
from lorebind_config.project_files import make_data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdrant_client import QdrantClient


def qdrant(module: str = "qdrant_client") -> Any:
    """Import a module of qdrant-client, which takes a second."""
    return import_extra(module, extra="qdrant", purpose="a vector database of type qdrant")


class LocalClient:
    """Local mode in one folder or in memory, shared by the connections of a process.

    It is not thread-safe, so threads take turns. It locks its folder against other clients.
    """

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self.users = 0
        self._turn = threading.Lock()
        self._client: QdrantClient | None = None
        self._process = 0

    @property
    def is_of_a_parent(self) -> bool:
        """Whether it was opened before this process was forked."""
        return self._process not in (0, os.getpid())

    @contextmanager
    def lent(self) -> Iterator[QdrantClient]:
        """Lend the client to this thread alone. The first call creates the folder."""
        if self.is_of_a_parent:
            raise StoreError(
                f"{self}: was opened before this process was forked, and serves one process only; "
                "open the project after the fork, or use a Qdrant server"
            )
        with self._turn:
            if not self.users:
                raise StoreError(f"{self}: the store is closed")
            if self._client is None:
                self._process = os.getpid()  # set first, because a fork may happen during opening
                self._client = self._open()
            yield self._client

    def close(self) -> None:
        with self._turn:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def __str__(self) -> str:
        return f"qdrant store {self.folder or 'in memory'}"

    def _open(self) -> QdrantClient:
        client = qdrant().QdrantClient
        # Threads take turns with its sqlite3 connections, so the thread check must be off.
        if self.folder is None:
            in_memory: QdrantClient = client(":memory:", force_disable_check_same_thread=True)
            return in_memory
        try:
            make_data_folder(Path(self.folder))
            opened: QdrantClient = client(path=self.folder, force_disable_check_same_thread=True)
        except RuntimeError as error:  # raised by local mode if the folder is locked
            raise StoreError(
                f"{self}: another process uses the folder, and local mode serves one at a time; "
                "wait for that process to end, or use a Qdrant server"
            ) from error
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{self}: cannot be opened: {error}; check the folder and its permissions, or move "
                "it away and ingest again"
            ) from error
        return opened


_folders: dict[str, LocalClient] = {}
_folders_lock = threading.Lock()


def acquire(folder: Path | None) -> LocalClient:
    """Return the client of a folder, or one in memory; pass it to `release` once."""
    name = "" if folder is None else os.path.realpath(folder)
    with _folders_lock:
        local = _folders.get(name)
        if local is None or local.is_of_a_parent:
            local = LocalClient(name or None)
        if name:
            _folders[name] = local
        local.users += 1
        return local


def release(local: LocalClient) -> None:
    if local.is_of_a_parent:
        return
    with _folders_lock:
        local.users -= 1
        if local.users == 0:
            _folders.pop(local.folder or "", None)
            local.close()
