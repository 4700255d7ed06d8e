"""The file of a pack: a ZIP archive of a few known members, written and read as a stream.

The comment at the end of the archive is the SHA-256 of everything before it. So a file that is
incomplete or was altered is refused before any of it is parsed, and nothing is ever extracted: the
names of members are compared with the known ones, and their lines are read one by one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from lorebind_config.errors import StoreError, UsageError

MANIFEST = "manifest.json"
DOCUMENTS, CHUNKS, ADDED = "documents.jsonl", "chunks.jsonl", "added.jsonl"
WORDS, TERMS = "words.jsonl", "terms.jsonl"
VECTORS = "vectors.f32"
MEMBERS = (DOCUMENTS, CHUNKS, VECTORS, WORDS, TERMS, ADDED)
"""The members beside the manifest, each of which a pack has once or not at all."""

_SIGN = b"sha256:"
_DIGEST = 64
"""Characters of a SHA-256 in hex."""
_BLOCK = 1 << 20
_LONGEST_LINE = 8 << 20
"""Bytes of a line: an added document of 4 MiB has 6 MiB. Parsed, it can take 25 times as many."""
_LARGEST_RATIO, _FREE_BYTES = 100, 16 << 20
"""All members may have this many bytes, and this many times the bytes of the file. Packs have 2 to
10 times; a bomb has 1,000 times."""
_LARGEST_READ = 4 << 20
"""Bytes of one read of the file: a forged directory of its members must not fill the memory."""
_LARGEST_MANIFEST = 4 << 20
_FASTEST = 1
"""The level of compression. Higher ones take several times as long, for a tenth of the size."""


@contextmanager
def new_file(path: Path | str) -> Iterator[BinaryIO]:
    """Open a file that replaces the one at a path at the end of the block, if it raises nothing.

    Raises:
        UsageError: the file cannot be written.
    """
    file = Path(path)
    # Several processes may write the same file at once.
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("w+b") as out:
            yield out
        part.replace(file)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


class PackWriter:
    """Writes a pack to a binary stream that need not be seekable, one member after the other."""

    def __init__(self, out: BinaryIO) -> None:
        self._sink = _Sealed(out)
        sink: Any = self._sink  # written only
        self._zip = zipfile.ZipFile(
            sink,
            "w",
            zipfile.ZIP_DEFLATED,
            compresslevel=_FASTEST,
        )
        self._zip.comment = _SIGN + b"0" * _DIGEST
        self._members: dict[str, dict[str, Any]] = {}

    @contextmanager
    def member(self, name: str) -> Iterator[_Member]:
        """Open a member for writing."""
        # Vectors are as good as random, so compressing them only takes time.
        entry: Any = zipfile.ZipInfo(name) if name == VECTORS else name
        # Sizes are written before they are known, and the stream cannot go back to change them.
        with self._zip.open(entry, "w", force_zip64=True) as stream:
            member = _Member(stream)
            yield member
        self._members[name] = {"bytes": member.size, "sha256": member.digest.hexdigest()}

    def finish(self, manifest: Mapping[str, Any]) -> int:
        """Write the manifest, with the sizes and checksums of the members, and the end.

        Returns:
            the size of the pack in bytes.
        """
        whole = {**manifest, "members": self._members}
        text = json.dumps(whole, ensure_ascii=False, indent=2, default=str)
        self._zip.writestr(zipfile.ZipInfo(MANIFEST), text.encode())
        self._zip.close()
        return self._sink.seal()

    def abandon(self) -> None:
        """Write nothing more: the pack stays incomplete, and is refused by readers."""
        self._sink.stop()
        with suppress(ValueError):  # a member is open
            self._zip.close()


class _Member:
    """A member that is being written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.size, self.digest = 0, hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.size += len(data)
        self.digest.update(data)
        self._stream.write(data)

    def lines(self, values: Iterable[str]) -> None:
        """Write texts, each as a line.

        Raises:
            StoreError: a line is so long that no reader accepts it.
        """
        for line in (f"{value}\n".encode() for value in values):
            if len(line) >= _LONGEST_LINE:
                raise StoreError(
                    f"a document or passage cannot be packed, because it has {len(line)} bytes as "
                    f"JSON, and at most {_LONGEST_LINE} are possible: {line[:100]!r}"
                )
            self.write(line)


class _Sealed:
    """Passes on what is written, and puts the checksum in place of the last characters."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._end = out, b""
        self._is_stopped = False
        self._size, self._digest = 0, hashlib.sha256()

    def write(self, data: bytes) -> int:
        if self._is_stopped:
            return len(data)
        both = self._end + bytes(data)
        written, self._end = both[:-_DIGEST], both[-_DIGEST:]
        self._digest.update(written)
        self._size += len(written)
        self._out.write(written)
        return len(data)

    def flush(self) -> None:
        """Do nothing: `seal` flushes."""

    def stop(self) -> None:
        """Drop everything from now on."""
        self._is_stopped = True

    def seal(self) -> int:
        self._out.write(self._digest.hexdigest().encode())
        self._out.flush()
        return self._size + _DIGEST


class PackReader:
    """Reads a pack. Methods block."""

    def __init__(self, source: Path | str | BinaryIO) -> None:
        """Open a pack and compare its checksum.

        Args:
            source: the file, or its content as an open file, which stays open.

        Raises:
            UsageError: the file is no pack, is incomplete or was altered, or a newer Lorebind has
                written it.
        """
        self._name = str(source) if isinstance(source, Path | str) else "the pack"
        self._opened = ExitStack()
        self._file: BinaryIO
        if isinstance(source, Path | str):
            self._file = self._open(Path(source))
        else:
            self._file = source
        try:
            # First, so that nothing of an altered file is parsed.
            self._check_seal()
            with self._sound():
                limited: Any = _Limited(self._file)
                self._zip = zipfile.ZipFile(limited)
            self._check_members()
            self.manifest = self._read_manifest()
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> PackReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._opened.close()

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._file.seek(0, os.SEEK_END)

    def has(self, name: str) -> bool:
        """Return whether the pack has a member."""
        return name in self._zip.NameToInfo

    def values(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of a member, one for each line.

        Raises:
            UsageError: the member is damaged.
        """
        with self.member(name) as stream:
            number = 0
            while line := stream.readline():
                number += 1
                try:
                    value = json.loads(line, parse_constant=_no_number)
                except (ValueError, RecursionError):
                    value = None
                if not isinstance(value, dict):
                    raise self.damaged(f"{name}:{number}: is not a JSON object")
                yield value

    @contextmanager
    def member(self, name: str) -> Iterator[_Checked]:
        """Open a member for reading; at the end, it must have been read completely.

        Raises:
            UsageError: the member is missing or damaged.
        """
        if not self.has(name):
            raise self.damaged(f"{name} is missing")
        with self._sound(), self._zip.open(name) as stream:
            # zipfile reads lines character by character.
            buffered: Any = io.BufferedReader(stream, _BLOCK)
            checked = _Checked(buffered, self, name)
            yield checked
            checked.end()

    def damaged(self, why: str) -> UsageError:
        """Return the error for content that Lorebind never writes."""
        return UsageError(f"{self._name}: {why}; nothing was unpacked; pack it again")

    @contextmanager
    def _sound(self) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise self.damaged(f"is not a readable archive: {error}") from error

    def _open(self, path: Path) -> BinaryIO:
        try:
            return self._opened.enter_context(path.open("rb"))
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error

    def _check_seal(self) -> None:
        size = self.size
        self._file.seek(max(0, size - _DIGEST - len(_SIGN)))
        end = self._file.read()
        self._file.seek(0)
        if not end.startswith(_SIGN):
            raise UsageError(
                f"{self._name}: is not a pack, or is incomplete; `lorebind knowledge pack` writes "
                "packs"
            )
        digest = hashlib.sha256()
        left = size - _DIGEST
        while left and (block := self._file.read(min(_BLOCK, left))):
            digest.update(block)
            left -= len(block)
        if digest.hexdigest().encode() != end[len(_SIGN) :]:
            raise self.damaged("is incomplete or was altered: its checksum differs")

    def _check_members(self) -> None:
        infos = self._zip.infolist()
        names = [info.filename for info in infos]
        unknown = [name for name in names if name not in (MANIFEST, *MEMBERS)]
        if unknown or len(set(names)) < len(names):
            raise self.damaged(f"has an unknown member {(unknown or names)[0][:100]!r}")
        for info in infos:
            if info.flag_bits & 1 or info.compress_type not in (
                zipfile.ZIP_STORED,
                zipfile.ZIP_DEFLATED,
            ):
                raise self.damaged(f"{info.filename}: is encrypted or compressed in another way")
        if (
            total := sum(info.file_size for info in infos)
        ) > _LARGEST_RATIO * self.size + _FREE_BYTES:
            raise self.damaged(f"would have {total} bytes, {total // self.size} times its size")

    def _read_manifest(self) -> dict[str, Any]:
        if not self.has(MANIFEST) or self._zip.getinfo(MANIFEST).file_size > _LARGEST_MANIFEST:
            raise self.damaged(f"{MANIFEST} is missing or too large")
        with self._sound():
            data = self._zip.read(MANIFEST)
        try:
            manifest = json.loads(data, parse_constant=_no_number)
        except (ValueError, RecursionError):
            manifest = None
        if not isinstance(manifest, dict):
            raise self.damaged(f"{MANIFEST}: is not a JSON object")
        return manifest


class _Checked:
    """A member that is being read: its checksum must be the one in the manifest."""

    def __init__(self, stream: IO[bytes], pack: PackReader, name: str) -> None:
        self._stream, self._pack, self._name = stream, pack, name
        self._digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Read exactly this number of bytes, however many there should be."""
        parts: list[bytes] = []
        left = size
        while left:
            part = self._stream.read(min(left, _BLOCK))
            if not part:
                raise self._pack.damaged(f"{self._name}: is too short")
            parts.append(part)
            left -= len(part)
        data = b"".join(parts)
        self._digest.update(data)
        return data

    def readline(self) -> bytes:
        line = self._stream.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE:
            raise self._pack.damaged(f"{self._name}: has a line of {_LONGEST_LINE} bytes or more")
        self._digest.update(line)
        return line

    def end(self) -> None:
        """Check that nothing is left, and the checksum."""
        listed = self._pack.manifest.get("members")
        about = listed.get(self._name) if isinstance(listed, dict) else None
        expected = about.get("sha256") if isinstance(about, dict) else None
        if self._stream.read(1):
            raise self._pack.damaged(f"{self._name}: has more than {MANIFEST} counts")
        if self._digest.hexdigest() != expected:
            raise self._pack.damaged(f"{self._name}: its checksum differs from {MANIFEST}")


class _Limited:
    """A file of which only small parts are read at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size, _LARGEST_READ + 1) if size >= 0 else _LARGEST_READ + 1)
        if len(data) > _LARGEST_READ:
            raise zipfile.BadZipFile("the directory of its members is too large")
        return data

    def close(self) -> None:
        """Leave the file open, because its owner closes it."""


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
