"""Locks that let one run at a time use a thread, across all processes."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from lorebind_knowledge.data_folder import make_data_folder
from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from filelock import FileLock

PATIENCE_SECONDS = 0.3
"""How long a claim waits. A process that only asks whether a thread runs holds its lock for a
moment, and what a killed one held may take a moment to be free."""
ELSEWHERE = (
    "keep threads in another place with `checkpointer: { path: ... }`, or only as long as the "
    "process runs with `checkpointer: { type: memory }`"
)


class MemoryClaims:
    """Claims that only this process can have. The methods may be called by any thread."""

    def __init__(self) -> None:
        self._held: dict[str, object] = {}

    def take(self, key: str) -> bool:
        """Whether the claim was free; it is taken now."""
        mine = object()
        return self._held.setdefault(key, mine) is mine  # in one step, for all threads

    def free(self, key: str) -> None:
        """Give back what was taken."""
        del self._held[key]

    def is_held(self, key: str) -> bool:
        """Whether anybody has the claim."""
        return key in self._held


class FileClaims:
    """Claims by a lock file for each, which the system frees when the process ends."""

    def __init__(self, database: Path) -> None:
        """
        Args:
            database: the file that the lock files stand beside.
        """
        self._database = database
        self._locks: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        from filelock import Timeout

        lock = self._lock(key)
        # Some file systems give a lock twice to one process.
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
        if not os.path.exists(lock.lock_file):
            return False
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        except OSError:
            return False  # where nothing can be written, nothing runs
        _end(lock)  # left by a process that was killed
        return False

    def _lock(self, key: str) -> FileLock:
        from filelock import FileLock

        name = f"{self._database.name}.{key}.lock"
        return FileLock(self._database.with_name(name), thread_local=False)


_of_this_process: dict[str, FileLock] = {}

if hasattr(os, "register_at_fork"):  # the child runs none of the parent's threads
    os.register_at_fork(after_in_child=_of_this_process.clear)


def _end(lock: FileLock) -> None:
    """Remove the file, then release the lock. A process that waited for it opens a new file."""
    with suppress(OSError):  # an empty file stays, as on Windows
        os.unlink(lock.lock_file)
    lock.release()
