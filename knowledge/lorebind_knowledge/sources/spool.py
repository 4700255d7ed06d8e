"""A temporary file for data that is received once and read later, piece by piece."""

from __future__ import annotations

import tempfile
import threading
import weakref
from typing import IO, TypeAlias

from lorebind_config.errors import SourceError

Piece: TypeAlias = tuple[int, int]
"""Start and length of a piece, in bytes."""


class Spool:
    """Storage for bytes on disk until it is closed or garbage collected. It is thread-safe.

    Where the system supports it, the file has no name, so it never outlives the process. It is
    created when the first piece is put.
    """

    def __init__(self) -> None:
        self.size = 0
        """In bytes."""
        self._lock = threading.Lock()  # a seek and what follows it belong together
        self._file: IO[bytes] | None = None

    def put(self, data: bytes) -> Piece:
        """Add a piece and return its location.

        Raises:
            SourceError: the disk is full or cannot be written.
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
                    f"a temporary file cannot be written after {self.size >> 20} MiB: "
                    f"{error.strerror or error}; set TMPDIR to a folder with more space"
                ) from error
            piece = (self.size, len(data))
            self.size += len(data)
        return piece

    def get(self, piece: Piece) -> bytes:
        """Return a piece that was put.

        Raises:
            SourceError: it cannot be read back.
        """
        start, length = piece
        with self._lock:
            try:
                assert self._file is not None
                self._file.seek(start)
                return self._file.read(length)
            except (OSError, ValueError) as error:  # ValueError if the file is closed
                raise SourceError(f"a temporary file cannot be read: {error}") from error

    def close(self) -> None:
        """Free the disk space; nothing can be read afterwards."""
        with self._lock:
            if self._file is not None:
                self._file.close()
