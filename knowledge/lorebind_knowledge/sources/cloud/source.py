"""The source `cloud_storage`: objects of a bucket, read with the file systems of fsspec."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE
from lorebind_config.declarations.sources import SourceBase
from lorebind_config.declarations.values import ConfigMap, GlobPattern
from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.base import mark
from lorebind_knowledge.sources.cloud.buckets import SYSTEMS, RemoteBucket
from lorebind_knowledge.sources.folder.files import FileSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Protocol

    from lorebind_config.declarations.base import Wants
    from lorebind_knowledge.sources.base import SourceItem
    from lorebind_knowledge.sources.environment import SourceEnvironment

    class Bucket(Protocol):
        """A bucket of objects."""

        address: str
        """The address in uris and messages, such as `s3://bucket`."""

        def objects(self, prefix: str) -> Iterator[SourceItem]:
            """Yield at least the objects that start with the prefix.

            The uri of each item is the object's name.
            """
            ...


class CloudStorageSource(SourceBase):
    """Objects of a bucket, or files of a folder."""

    declares_uris: ClassVar[bool] = True

    templated: ClassVar[tuple[str, ...]] = ("bucket", "prefix", "config")

    type: Literal["cloud_storage"] = Field(description="Objects of a bucket.")
    provider: Literal["s3", "gcs", "azure", "file", "memory"] = Field(
        description="The provider of the bucket. Use `file` and `memory` to try things out."
    )
    bucket: str = Field(min_length=1, description="The bucket, container or folder.")
    prefix: str = Field("", description="Only objects whose names start with this.")
    pattern: GlobPattern = Field("**", min_length=1, description="A glob pattern below the prefix.")
    config: ConfigMap = Field(
        default_factory=dict, description="Arguments for the fsspec file system, by name."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.provider == "file":
            yield "bucket", "read", OUTSIDE
        elif self.provider != "memory":
            words = f"the bucket {self.bucket} of {self.provider}, with this machine's credentials"
            yield "bucket", "read", words
            yield "bucket", "send", f"the hosts of {self.provider}"

    @property
    def names(self) -> list[str]:
        place = f"{self.provider}://{self.bucket}/{self.prefix}"
        return [place, self.pattern, *mark(self.config)]


Declaration = CloudStorageSource


def make(declaration: CloudStorageSource, environment: SourceEnvironment) -> BucketSource:
    """Return the source of a declaration.

    Raises:
        SourceError: a folder is declared with `config`, which it does not support.
    """
    filled, shown = environment.filled(declaration)
    bucket: Bucket
    if filled.provider == "file":
        if filled.config:
            raise SourceError("provider 'file' takes no config")
        bucket = FolderBucket(shown.bucket, environment.root / filled.bucket, filled.max_bytes)
    else:
        bucket = RemoteBucket(
            filled.provider,
            filled.bucket,
            shown_name=shown.bucket,
            written=declaration.config,
            settings=filled.config,
            values=environment.told,
            max_bytes=filled.max_bytes,
        )
    return BucketSource(
        environment.key,
        bucket,
        filled.prefix,
        filled.pattern,
        shown_prefix=shown.prefix,
    )


class BucketSource:
    """Objects whose names start with a prefix and match a pattern after it, sorted by name.

    The pattern works as for files: `**` crosses folders, and hidden objects are skipped. A folder
    that cannot be listed is reported if objects with the prefix can be below it.
    """

    def __init__(
        self, key: str, bucket: Bucket, prefix: str, pattern: str, *, shown_prefix: str
    ) -> None:
        """Create the source.

        Args:
            key: the source's key.
            bucket: the bucket of the objects.
            prefix: start of the objects' names.
            pattern: glob pattern for the rest of the names.
            shown_prefix: the prefix as shown in uris: with templates instead of values.
        """
        self.key = key
        self._bucket = bucket
        self._prefix = prefix.lstrip("/")
        self._shown_prefix = shown_prefix.lstrip("/")
        self._pattern = pattern

    def items(self) -> Iterator[SourceItem]:
        address = self._bucket.address
        found: dict[str, SourceItem] = {}
        for item in self._bucket.objects(self._prefix):
            if item.unlisted and self._prefix.startswith(item.uri):
                raise SourceError(f"{address}/{item.uri} cannot be listed: {item.unlisted}")
            is_meant = item.uri.startswith(self._prefix)
            if is_meant and (item.unlisted or self._matches(item.uri)):
                found[item.uri] = item
        if not found:
            raise SourceError(
                f"no object of {address}/{self._shown_prefix} matches {self._pattern}"
            )
        for name in sorted(found):
            shown = f"{self._shown_prefix}{name[len(self._prefix) :]}"
            peek = None if name == self._prefix else found[name].peek
            yield replace(found[name], uri=f"{address}/{shown}", peek=peek)

    def _matches(self, name: str) -> bool:
        from wcmatch import glob

        rest = name[len(self._prefix) :]
        if not rest:
            return True
        flags = glob.GLOBSTAR | glob.BRACE | glob.FORCEUNIX
        within_a_name = self._prefix and not self._prefix.endswith("/")
        if within_a_name and rest.startswith(".") and "/." not in rest:
            flags |= glob.DOTGLOB  # the dot is within a name, so it does not mark a hidden object
        return bool(glob.globmatch(rest.lstrip("/"), self._pattern, flags=flags))


class FolderBucket:
    """A folder of this machine used as a bucket. Links that leave the folder are refused."""

    def __init__(self, name: str, folder: Path, max_bytes: int) -> None:
        """Create the bucket.

        Args:
            name: the folder as shown in uris.
            folder: path of the folder.
            max_bytes: maximum size of a file.
        """
        self.address = address_of("file", name)
        self._files = FileSource(
            "file",
            ["**"],
            folder,
            max_bytes=max_bytes,
            respect_gitignore=False,
            all_folders=True,
            place="its bucket",
        )

    def objects(self, prefix: str) -> Iterator[SourceItem]:
        return self._files.items()


def address_of(provider: str, bucket: str) -> str:
    """Return the start of the uris of a bucket's objects."""
    if provider == "file":
        return f"file://{bucket.rstrip('/')}"
    return f"{SYSTEMS[provider].scheme}://{bucket.strip('/')}"
