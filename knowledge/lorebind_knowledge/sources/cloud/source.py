"""The source `cloud_storage`: objects of a bucket, read with the file systems of fsspec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE
from lorebind_config.declarations.sources import SourceBase
from lorebind_config.declarations.values import ConfigMap, GlobPattern
from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.base import mark
from lorebind_knowledge.sources.cloud.buckets import RemoteBucket
from lorebind_knowledge.sources.folder.files import FileSource

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Wants
    from lorebind_knowledge.sources.base import SourceItem
    from lorebind_knowledge.sources.make import SourceEnvironment


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
    objects: Callable[[str], Iterator[SourceItem]]
    if filled.provider == "file":
        if filled.config:
            raise SourceError("provider 'file' takes no config")
        address = f"file://{shown.bucket.rstrip('/')}"
        files = FileSource(
            "file",
            ["**"],
            environment.root / filled.bucket,
            max_bytes=filled.max_bytes,
            respect_gitignore=False,
            all_folders=True,
            place="its bucket",
        )
        objects = lambda _: files.items()  # noqa: E731 - the prefix is checked for all buckets
    else:
        bucket = RemoteBucket(filled, shown.bucket, declaration.config, environment.told)
        address, objects = bucket.address, bucket.objects
    prefix, shown_prefix = filled.prefix.lstrip("/"), shown.prefix.lstrip("/")
    return BucketSource(environment.key, address, objects, prefix, filled.pattern, shown_prefix)


@dataclass(frozen=True)
class BucketSource:
    """Objects whose names start with a prefix and match a pattern after it, sorted by name.

    The pattern works as for files: `**` crosses folders, and hidden objects are skipped. A folder
    that cannot be listed is reported if objects with the prefix can be below it.
    """

    key: str
    address: str
    """The bucket's address in uris and messages, such as `s3://bucket`."""
    objects: Callable[[str], Iterator[SourceItem]]
    """Yields at least the objects that start with a prefix; the uri of each item is its name."""
    prefix: str
    pattern: str
    """A glob pattern for the rest of the names."""
    shown_prefix: str
    """The prefix as shown in uris: with templates instead of values."""

    def items(self) -> Iterator[SourceItem]:
        found: dict[str, SourceItem] = {}
        for item in self.objects(self.prefix):
            if item.unlisted and self.prefix.startswith(item.uri):
                raise SourceError(f"{self.address}/{item.uri} cannot be listed: {item.unlisted}")
            is_meant = item.uri.startswith(self.prefix)
            if is_meant and (item.unlisted or self._matches(item.uri)):
                found[item.uri] = item
        if not found:
            raise SourceError(
                f"no object of {self.address}/{self.shown_prefix} matches {self.pattern}"
            )
        for name in sorted(found):
            shown = f"{self.shown_prefix}{name[len(self.prefix) :]}"
            peek = None if name == self.prefix else found[name].peek
            yield replace(found[name], uri=f"{self.address}/{shown}", peek=peek)

    def _matches(self, name: str) -> bool:
        from wcmatch import glob

        rest = name[len(self.prefix) :]
        if not rest:
            return True
        flags = glob.GLOBSTAR | glob.BRACE | glob.FORCEUNIX
        within_a_name = self.prefix and not self.prefix.endswith("/")
        if within_a_name and rest.startswith(".") and "/." not in rest:
            flags |= glob.DOTGLOB  # the dot is within a name, so it does not mark a hidden object
        return bool(glob.globmatch(rest.lstrip("/"), self.pattern, flags=flags))
