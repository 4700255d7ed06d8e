"""`cloud_storage`: objects of a bucket, through the file systems of fsspec."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.optional import import_extra
from lorebind_knowledge.redaction import said_by
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.files import FileSource
from lorebind_knowledge.sources.limits import too_large

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Protocol

    from lorebind_knowledge.declarations.sources import CloudStorageSource

    class Bucket(Protocol):
        """What objects are taken from."""

        address: str
        """As shown: `s3://bucket`."""

        def objects(self, folder: str) -> Iterator[SourceItem]:
            """The objects below a folder, or more of them; the uri of each is its name."""
            ...


_SYSTEMS = {"s3": ("s3", "s3fs"), "gcs": ("gs", "gcsfs"), "azure": ("abfs", "adlfs")}
"""For each provider fsspec's name of it, with which its addresses begin, and the package."""


class BucketSource:
    """Objects whose names begin with a prefix and match a pattern after it, sorted by name.

    The pattern is that of files: `**` crosses folders, hidden objects are passed over.
    """

    def __init__(self, key: str, bucket: Bucket, prefix: str, pattern: str) -> None:
        self.key = key
        self._bucket = bucket
        self._prefix = prefix.lstrip("/")
        self._pattern = pattern

    def items(self) -> Iterator[SourceItem]:
        from wcmatch import glob

        folder = self._prefix.rpartition("/")[0]
        flags = glob.GLOBSTAR | glob.BRACE | glob.FORCEUNIX
        found = {
            item.uri: item
            for item in self._bucket.objects(folder)
            if item.uri.startswith(self._prefix)
            and (
                item.uri == self._prefix
                or glob.globmatch(
                    item.uri[len(self._prefix) :].lstrip("/"), self._pattern, flags=flags
                )
            )
        }
        address = self._bucket.address
        if not found:
            raise SourceError(f"no object of {address}/{self._prefix} matches {self._pattern}")
        for name in sorted(found):
            yield SourceItem(f"{address}/{name}", found[name].read)


class RemoteBucket:
    """A bucket, or the memory of this process, that fsspec reaches."""

    def __init__(
        self, provider: str, name: str, *, written: Mapping[str, Any], settings: Mapping[str, Any],
        max_bytes: int,
    ) -> None:  # fmt: skip
        """
        Args:
            provider: `s3`, `gcs`, `azure` or `memory`.
            name: the bucket or container.
            written: the arguments of the file system as they stand in the configuration.
            settings: the same with their templates filled in.
            max_bytes: the size of the largest object.

        Raises:
            MissingDependencyError: when the extra `cloud` is not installed.
        """
        self._system, package = _SYSTEMS.get(provider, (provider, "fsspec"))
        purpose = f"a source of type 'cloud_storage' with provider {provider!r}"
        self._fsspec = import_extra("fsspec", extra="cloud", purpose=purpose)
        import_extra(package, extra="cloud", purpose=purpose)
        self._name = name.strip("/")
        self._written = dict(written)
        self._settings = dict(settings)
        self._max_bytes = max_bytes
        self.address = f"{self._system}://{self._name}"

    def objects(self, folder: str) -> Iterator[SourceItem]:
        top = f"{self._name}/{folder}".rstrip("/")
        # Listings of a partial failure are told as such by none of these: what walks must raise.
        careful = {"on_error": "raise"} if self._system == "memory" else {}
        try:
            # Neither the instance nor its listings are kept: both outlive changes of the bucket.
            own = {"skip_instance_cache": True, "use_listings_cache": False}
            files = self._fsspec.filesystem(self._system, **{**self._settings, **own})
            names = files.find(top, **careful)
        except Exception as error:  # any provider's own exceptions, in words that hold no key
            raise SourceError(f"{self.address} cannot be listed: {self._said(error)}") from error
        below = f"{self._name}/"
        for path in names:
            name = path.lstrip("/").removeprefix(below)
            if name and not name.endswith("/"):
                yield SourceItem(name, partial(self._read, files, path, f"{self.address}/{name}"))

    def _read(self, files: Any, path: str, uri: str, version: str) -> Content | None:
        try:
            info = files.info(path)
            if info["size"] > self._max_bytes:
                raise too_large(uri, self._max_bytes)
            # Asked for before the data: if the object changes in between, it is read again.
            found = str(info.get("ETag") or info.get("etag") or "")
            if found and found == version:
                return None
            # A range of an empty object does not exist.
            data = files.cat_file(path, start=0, end=self._max_bytes + 1) if info["size"] else b""
        except SourceError:
            raise
        except Exception as error:  # as above
            raise SourceError(f"{uri}: cannot be read: {self._said(error)}") from error
        if len(data) > self._max_bytes:
            raise too_large(uri, self._max_bytes)
        return Content(data, version=found)

    def _said(self, error: Exception) -> str:
        return said_by(error, written=self._written, resolved=self._settings)


class FolderBucket:
    """A folder of this machine in the place of a bucket. Links that lead out are refused."""

    def __init__(self, name: str, folder: Path, max_bytes: int) -> None:
        self.address = f"file://{name.rstrip('/')}"
        self._files = FileSource("file", ["**"], folder, max_bytes=max_bytes, place="its bucket")

    def objects(self, folder: str) -> Iterator[SourceItem]:
        return self._files.items()


def make_bucket(declaration: CloudStorageSource, written: Mapping[str, Any], root: Path) -> Bucket:
    """The bucket of a declaration whose templates are filled in.

    Args:
        declaration: the declaration.
        written: its `config` as it stands in the file.
        root: the project folder, from which relative folders are seen.

    Raises:
        SourceError: when a folder is given settings, of which it has none.
        MissingDependencyError: when the extra `cloud` is not installed.
    """
    if declaration.provider == "file":
        if declaration.config:
            raise SourceError("provider 'file' takes no config")
        folder = root / declaration.bucket
        return FolderBucket(declaration.bucket, folder, declaration.max_bytes)
    return RemoteBucket(
        declaration.provider,
        declaration.bucket,
        written=written,
        settings=declaration.config,
        max_bytes=declaration.max_bytes,
    )
