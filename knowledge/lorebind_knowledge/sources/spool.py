"""A temporary file for what is given once and read later, piece by piece."""

from __future__ import annotations

import tempfile
import threading
import weakref
from typing import IO, TypeAlias

from lorebind_knowledge.errors import SourceError

Piece: TypeAlias = tuple[int, int]
"""Where a piece begins, and its length."""


class Spool:
    """Holds bytes on disk, for any threads, until it is closed or nothing refers to it any more.

    Where the system allows it the file has no name, so that nothing of it is left however the
    process ends. It is made when the first piece is put.
    """

    def __init__(self) -> None:
        self.size = 0
        """In bytes."""
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None

    def put(self, data: bytes) -> Piece:
        """Add a piece.

        Raises:
            SourceError: when the disk does not take it.
        """
        with self._lock:
            try:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="lorebind-")  # noqa: SIM115
                    weakref.finalize(self, self._file.close)
                self._file.seek(self.size)
                self._file.write(data)
                self._file.flush()
            except OSError as error:
                raise SourceError(
                    f"{self.size >> 20} MiB were put into a temporary file, and no more can be: "
                    f"{error.strerror or error}; TMPDIR names a folder with more space"
                ) from error
            piece = (self.size, len(data))
            self.size += len(data)
        return piece

    def get(self, piece: Piece) -> bytes:
        """A piece that was put.

        Raises:
            SourceError: when it cannot be read back.
        """
        start, length = piece
        with self._lock:
            try:
                assert self._file is not None
                self._file.seek(start)
                return self._file.read(length)
            except (OSError, ValueError) as error:  # the latter when it was closed
                raise SourceError(f"a temporary file cannot be read: {error}") from error

    def close(self) -> None:
        """Give the space back. Nothing can be read afterwards."""
        with self._lock:
            if self._file is not None:
                self._file.close()
