"""`cloud_storage`: objects of a bucket, through the file systems of fsspec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.sources.base import SourceItem
from lorebind_knowledge.sources.files import FileSource
from lorebind_knowledge.sources.remote_buckets import RemoteBucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Protocol

    from lorebind_knowledge.declarations.sources import CloudStorageSource

    class Bucket(Protocol):
        """What objects are taken from."""

        address: str
        """As shown: `s3://bucket`."""

        def objects(self, prefix: str) -> Iterator[SourceItem]:
            """The objects of a prefix, or more of them; the uri of each is its name."""
            ...


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
        found = {
            item.uri: item
            for item in self._bucket.objects(self._prefix)
            if item.uri.startswith(self._prefix) and self._matches(item.uri)
        }
        address = self._bucket.address
        if not found:
            raise SourceError(f"no object of {address}/{self._prefix} matches {self._pattern}")
        for name in sorted(found):
            yield SourceItem(f"{address}/{name}", found[name].read)

    def _matches(self, name: str) -> bool:
        from wcmatch import glob

        rest = name[len(self._prefix) :]
        if not rest:
            return True
        flags = glob.GLOBSTAR | glob.BRACE | glob.FORCEUNIX
        within_a_name = self._prefix and not self._prefix.endswith("/")
        if within_a_name and rest.startswith(".") and "/." not in rest:
            flags |= glob.DOTGLOB  # the dot is one within a name, which hides nothing
        return bool(glob.globmatch(rest.lstrip("/"), self._pattern, flags=flags))


class FolderBucket:
    """A folder of this machine in the place of a bucket. Links that lead out are refused."""

    def __init__(self, name: str, folder: Path, max_bytes: int) -> None:
        self.address = f"file://{name.rstrip('/')}"
        self._files = FileSource("file", ["**"], folder, max_bytes=max_bytes, place="its bucket")

    def objects(self, prefix: str) -> Iterator[SourceItem]:
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
