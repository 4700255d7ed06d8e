"""Locks that allow only one run at a time to use a thread, across all processes."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from lorebind_config.errors import StoreError
from lorebind_config.project_files import make_data_folder

if TYPE_CHECKING:
    from pathlib import Path

    from filelock import FileLock

PATIENCE_SECONDS = 0.3
"""Seconds to wait for a claim. A process that checks whether a thread is running holds its lock for
a moment, and the lock of a killed process may take a moment to be released."""
ELSEWHERE = (
    "store threads in another location with `checkpointer: { path: ... }`, or only in memory "
    "with `checkpointer: { type: memory }`"
)


class Claims(Protocol):
    """Locks on threads. The methods block, and are thread-safe."""

    def take(self, key: str) -> bool:
        """Take the claim if it is free; return whether it was."""

    def free(self, key: str) -> None:
        """Release a claim that was taken."""

    def is_held(self, key: str) -> bool:
        """Return whether any process has the claim."""


class MemoryClaims:
    """Claims within this process. Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[str, object] = {}

    def take(self, key: str) -> bool:
        mine = object()
        return self._held.setdefault(key, mine) is mine  # atomic across threads

    def free(self, key: str) -> None:
        del self._held[key]

    def is_held(self, key: str) -> bool:
        return key in self._held


class FileClaims:
    """Claims with one lock file each, which the system releases when the process ends."""

    def __init__(self, database: Path) -> None:
        """
        Args:
            database: the database file; the lock files are created next to it.
        """
        self._database = database
        self._locks: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        from filelock import Timeout

        lock = self._lock(key)
        # Some file systems grant a lock twice to the same process.
        mine = _of_this_process.setdefault(lock.lock_file, lock) is lock
        taken = False
        try:
            if mine:
                make_data_folder(self._database, ELSEWHERE)
                lock.acquire(timeout=PATIENCE_SECONDS, poll_interval=0.01)
                self._locks[key] = lock
                taken = True
        except Timeout:
            pass
        except OSError as error:
            raise StoreError(
                f"threads in {self._database} cannot be written: {error.strerror or error}; make "
                f"its folder writable, or {ELSEWHERE}"
            ) from error
        finally:
            if mine and not taken:
                del _of_this_process[lock.lock_file]
        return taken

    def free(self, key: str) -> None:
        _end(lock := self._locks.pop(key))
        _of_this_process.pop(lock.lock_file, None)

    def is_held(self, key: str) -> bool:
        from filelock import Timeout

        lock = self._lock(key)
        if lock.lock_file in _of_this_process:
            return True
        # Trying the lock would create its file.
        if not os.path.exists(lock.lock_file):
            return False
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        except OSError:
            return False  # if nothing can be written, nothing is running
        _end(lock)  # left behind by a killed process
        return False

    def _lock(self, key: str) -> FileLock:
        from filelock import FileLock

        name = f"{self._database.name}.{key}.lock"
        # A run takes and frees its claim in different threads.
        return FileLock(self._database.with_name(name), thread_local=False)


_of_this_process: dict[str, FileLock] = {}

if hasattr(os, "register_at_fork"):  # a child process runs none of the parent's threads
    os.register_at_fork(after_in_child=_of_this_process.clear)


def _end(lock: FileLock) -> None:
    """Remove the file, then release the lock. A waiting process then opens a new file."""
    with suppress(OSError):  # the empty file cannot be removed, as on Windows
        os.unlink(lock.lock_file)
    lock.release()
