"""qdrant-client's local mode: a folder has one client in a process, and one process."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.data_folder import make_data_folder
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.extras import import_extra

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


def qdrant(module: str = "qdrant_client") -> Any:
    """A module of qdrant-client, which takes a second to load."""
    return import_extra(module, extra="qdrant", purpose="a vector database of type qdrant")


class LocalClient:
    """Local mode in one folder or in memory, shared by the connections of a process."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self.process = os.getpid()
        self.lock = threading.Lock()
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


_folders: dict[str, LocalClient] = {}
_folders_lock = threading.Lock()


def acquire(folder: Path | None) -> LocalClient:
    if folder is None:
        return LocalClient(None)
    name = os.path.realpath(folder)
    with _folders_lock:
        known = _folders.get(name)
        if known is None or known.process != os.getpid():
            known = _folders[name] = LocalClient(name)
        known.users += 1
        return known


def release(local: LocalClient) -> None:
    if local.process != os.getpid():
        return
    with _folders_lock:
        local.users -= 1
        if local.users > 0:
            return
        if local.folder is not None:
            _folders.pop(local.folder, None)
        local.close()
