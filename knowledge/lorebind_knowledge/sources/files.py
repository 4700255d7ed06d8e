"""`markdown_glob` and `file_glob`: files of the project, by glob patterns."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.sources.base import SourceItem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024


class FileSource:
    """Files below the project folder that match any of the patterns, sorted by path.

    `**` crosses folders, `{md,txt}` are alternatives; hidden files and folders are passed over and
    links to folders are not followed. A file whose real place is outside the project folder is
    refused.
    """

    def __init__(
        self, kind: str, patterns: Sequence[str], root: Path, *, exclude: Sequence[str] = ()
    ) -> None:
        self._kind = kind
        self._patterns = list(patterns)
        self._exclude = list(exclude)
        self._root = root

    @property
    def key(self) -> str:
        excluded = f" except {','.join(self._exclude)}" if self._exclude else ""
        return f"{self._kind}:{','.join(self._patterns)}{excluded}"

    def items(self) -> Iterator[SourceItem]:
        from wcmatch import glob

        if not self._root.is_dir():
            raise SourceError(f"the folder {self._root} is not there")
        found = glob.glob(
            self._patterns,
            root_dir=str(self._root),
            flags=glob.GLOBSTAR | glob.BRACE | glob.NODIR,
            exclude=self._exclude or None,
            limit=0,
        )
        if not found:
            raise SourceError(f"no file in {self._root} matches {' or '.join(self._patterns)}")
        for name in sorted({path.replace("\\", "/").removeprefix("./") for path in found}):
            # A file's name may be bytes that are no text; a uri is always text.
            uri = os.fsencode(name).decode("utf-8", "backslashreplace")
            yield SourceItem(uri, partial(self._read, self._root / name, uri))

    def _read(self, path: Path, name: str) -> bytes:
        try:
            real = Path(os.path.realpath(path, strict=True))
            if not real.is_relative_to(self._root.resolve()):
                raise SourceError(f"{name}: is a link to a place outside the project folder")
            if not real.is_file():
                raise SourceError(f"{name}: is not a regular file")
            with real.open("rb") as file:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from error
        if len(data) > MAX_DOCUMENT_BYTES:
            raise SourceError(f"{name}: is larger than {MAX_DOCUMENT_BYTES // 1024**2} MiB")
        return data
