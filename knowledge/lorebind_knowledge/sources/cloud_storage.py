"""The source `cloud_storage`: objects of a bucket, read with the file systems of fsspec."""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.dates import date_of, parsed_date
from lorebind_config.declarations.base import OUTSIDE
from lorebind_config.declarations.sources import SourceBase
from lorebind_config.declarations.values import ConfigMap, GlobPattern
from lorebind_config.document_sizes import too_large
from lorebind_config.errors import SourceError
from lorebind_config.plugins import import_extra
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.sources.base import Content, SourceItem, mark
from lorebind_knowledge.sources.folder.files import FileSource

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Wants
    from lorebind_knowledge.sources.make import SourceEnvironment

_SECONDS_TO_LIST = 1800.0
_SECONDS_TO_READ = 60.0
"""For an object, plus one second for each MiB that it may have."""
_FAILURES_IN_A_ROW = 3
"""After this many failures the bucket counts as down: each may have taken minutes."""
_LONGEST_MESSAGE = 500


@dataclass(frozen=True)
class _System:
    """A file system of fsspec."""

    scheme: str
    """Scheme of its addresses."""
    module: str
    kind: str
    """Name of the class.

    It is not looked up in fsspec's registry. The class registered for Google first asks another
    service about each bucket, by gRPC, and waits for it for a minute where only storage is
    reachable.
    """
    credentials: str = ""
    """Settings to check when access is denied."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default settings, which the configuration overrides."""
    remote: bool = True


_SYSTEMS = {
    "s3": _System("s3", "s3fs", "S3FileSystem", "key, secret, token, profile"),
    "gcs": _System(
        "gs", "gcsfs.core", "GCSFileSystem", "token", {"requests_timeout": _SECONDS_TO_READ}
    ),
    "azure": _System(
        "abfs",
        "adlfs",
        "AzureBlobFileSystem",
        "connection_string, or account_name with account_key or sas_token",
    ),
    "memory": _System(
        "memory", "fsspec.implementations.memory", "MemoryFileSystem", remote=False
    ),
}  # fmt: skip


class RemoteBucket:
    """A bucket that fsspec reaches, or the memory of this process."""

    def __init__(
        self,
        declaration: CloudStorageSource,
        shown_name: str,
        written: Mapping[str, Any],
        values: Mapping[str, str],
    ) -> None:
        """Create the bucket.

        Args:
            declaration: its declaration, with resolved templates.
            shown_name: the bucket as it is shown.
            written: arguments for the file system as written in the configuration.
            values: more values to remove from messages; see `redaction.without`.

        Raises:
            MissingDependencyError: the extra `cloud` is not installed.
        """
        provider = declaration.provider
        self._system = _SYSTEMS[provider]
        purpose = f"a source of type 'cloud_storage' with provider {provider!r}"
        import_extra("fsspec", extra="cloud", purpose=purpose)
        module = import_extra(self._system.module, extra="cloud", purpose=purpose)
        self._kind = getattr(module, self._system.kind)
        self._name = declaration.bucket.strip("/")
        self._written, self._settings, self._values = written, declaration.config, values
        self._limit = declaration.size_limit
        self._opened: list[Any] = []
        """Holds the file system, which is created on first use."""
        self.address = f"{self._system.scheme}://{shown_name.strip('/')}"

    def objects(self, prefix: str) -> Iterator[SourceItem]:
        try:
            listed = self._listed(prefix)
        except FileNotFoundError as error:
            raise SourceError(
                f"{self.address} cannot be listed: the bucket does not exist"
            ) from error
        except Exception as error:  # providers can raise anything; their messages contain no keys
            raise SourceError(f"{self.address} cannot be listed: {self._message(error)}") from error
        folders = {path.rpartition("/")[0] for path in listed}
        below = f"{self._name}/"
        outage = _Outage()
        for path, info in listed.items():
            # Azure lists empty objects that represent folders under the names of the folders.
            marker = not info["size"] and path in folders
            name = path.lstrip("/").removeprefix(below)
            if name and not name.endswith("/") and not marker:
                uri = f"{self.address}/{name}"
                as_listed = (info["size"], _version_of(info), _modified_of(info))
                read = partial(self._read, path, uri, as_listed, outage)
                peek = partial(self._peek, path, uri, info["size"], outage)
                yield SourceItem(name, read, peek=peek)

    def _files(self) -> Any:
        if not self._opened:
            # If logging is not set up, Python prints the errors that these libraries log.
            logger = logging.getLogger(self._kind.__module__.partition(".")[0])
            logger.addHandler(logging.NullHandler())
            # fsspec must not cache instances or listings: the bucket can change in the meantime.
            fresh = {"skip_instance_cache": True, "use_listings_cache": False}
            settings = deepcopy(self._settings)  # some file systems modify their arguments
            self._opened.append(self._kind(**{**self._system.defaults, **settings, **fresh}))
            if self._system.remote:
                weakref.finalize(self, _let_go, self._opened).atexit = False
        return self._opened[0]

    def _listed(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return the details of each object by path, which is the bucket and the name."""
        files = self._files()
        objects: dict[str, dict[str, Any]]
        if not self._system.remote:
            objects = files.find(self._name, detail=True, on_error="raise")
            return objects
        bound = {"timeout": _SECONDS_TO_LIST}
        objects = files.find(self._name, prefix=prefix, detail=True, **bound)
        if not objects and self._system.scheme == "abfs":
            files.info(self._name, **bound)  # raises if the container does not exist
        return objects

    def _read(
        self, path: str, uri: str, as_listed: tuple[int, str, str], outage: _Outage, version: str
    ) -> Content | None:
        size, listed, modified = as_listed
        if listed and listed == version:
            return None
        limit = self._limit.of(uri)
        if size > limit.size:
            raise too_large(uri, limit)
        with self._noting(outage, uri):
            # An empty object has no byte ranges.
            # A byte above the limit shows that it has grown since it was listed.
            data = self._bytes(path, limit.size + 1) if size else b""
            # If the object changed after it was listed, it has no version and is read again next
            # time.
            info = self._files().info(path, **self._seconds_to_read()) if listed else {}
        outage.failures = 0
        modified = _modified_of(info) or modified
        version = listed if listed == _version_of(info) else ""
        return Content(data, version=version, modified=modified)

    def _peek(self, path: str, uri: str, there: int, outage: _Outage, size: int | None) -> bytes:
        if not there or (size is None and there > self._limit.of(uri).size):
            return b""
        with self._noting(outage, uri):
            return self._bytes(path, self._limit.of(uri).size if size is None else size)

    @contextmanager
    def _noting(self, outage: _Outage, uri: str) -> Iterator[None]:
        """Turn the failures of a block into errors; refuse to begin during an outage."""
        if outage.failures >= _FAILURES_IN_A_ROW:
            raise SourceError(f"{uri}: not tried, because previous reads failed: {outage.last}")
        try:
            yield
        except Exception as error:  # providers can raise anything
            message = self._message(error)
            outage.count(error, message)
            raise SourceError(f"{uri}: cannot be read: {message}") from error

    def _bytes(self, path: str, end: int) -> bytes:
        data: bytes = self._files().cat_file(path, start=0, end=end, **self._seconds_to_read())
        return data

    def _seconds_to_read(self) -> dict[str, float]:
        seconds = _SECONDS_TO_READ + max(self._limit) / 1024**2
        return {"timeout": seconds} if self._system.remote else {}

    def _message(self, error: Exception) -> str:
        message = redacted_message(
            error, written=self._written, resolved=self._settings, values=self._values
        )
        message = re.sub(r"\s+", " ", message)[:_LONGEST_MESSAGE]
        if _is_refusal(error):
            message += f"; check the credentials in the source's config: {self._system.credentials}"
        return message


def _let_go(files: list[Any]) -> None:
    """Release a file system in the thread of its event loop, which closes its connections."""
    files[0].loop.call_soon_threadsafe(_end, files)


def _end(files: list[Any]) -> None:
    # fsspec sets methods on the instance, which form reference cycles. Without removing them, the
    # garbage collector could close the connections in the thread of another event loop.
    about = vars(files.pop())
    for name in [name for name, value in about.items() if callable(value)]:
        del about[name]


@dataclass
class _Outage:
    """A record of whether the bucket of a listing has stopped responding."""

    failures: int = 0
    """Number of failures in a row."""
    last: str = ""

    def count(self, error: Exception, message: str) -> None:
        if isinstance(error, FileNotFoundError) or _is_refusal(error):
            return  # the provider responded
        self.failures += 1
        self.last = message


def _version_of(info: Mapping[str, Any]) -> str:
    """Return a value that identifies an object's version; empty if there is none."""
    return str(info.get("generation") or info.get("ETag") or info.get("etag") or "")


def _modified_of(info: Mapping[str, Any]) -> str:
    """Return when an object was changed, as `lorebind_config.dates` stores it; empty if unknown."""
    keys = ("LastModified", "last_modified", "updated", "mtime")  # of S3, Azure, GCS and files
    value = next((info[key] for key in keys if info.get(key)), None)
    if isinstance(value, datetime):
        value = value.timestamp()
    if isinstance(value, int | float):
        return date_of(value)
    return (parsed_date(value) or "") if isinstance(value, str) else ""


def _is_refusal(error: Exception) -> bool:
    """Return whether the provider responded and denied access."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return (
        isinstance(error, PermissionError)
        or status in (401, 403)
        or str(error).startswith("Forbidden")  # gcsfs reports it only in the message
        or bool(re.search("Auth|Credential", type(error).__name__))
    )


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
    filled, public = environment.filled(declaration)
    objects: Callable[[str], Iterator[SourceItem]]
    if filled.provider == "file":
        if filled.config:
            raise SourceError("provider 'file' takes no config")
        address = f"file://{public.bucket.rstrip('/')}"
        files = FileSource(
            "file",
            ["**"],
            environment.root / filled.bucket,
            max_bytes=filled.max_bytes,
            max_scan_bytes=filled.max_scan_bytes,
            respect_gitignore=False,
            all_folders=True,
            place="its bucket",
        )
        objects = lambda _: files.items()  # noqa: E731 - the prefix is checked for all buckets
    else:
        bucket = RemoteBucket(filled, public.bucket, declaration.config, environment.secrets)
        address, objects = bucket.address, bucket.objects
    prefix, shown_prefix = filled.prefix.lstrip("/"), public.prefix.lstrip("/")
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
        items: dict[str, SourceItem] = {}
        for item in self.objects(self.prefix):
            if item.unlisted and self.prefix.startswith(item.uri):
                raise SourceError(f"{self.address}/{item.uri} cannot be listed: {item.unlisted}")
            is_meant = item.uri.startswith(self.prefix)
            if is_meant and (item.unlisted or self._matches(item.uri)):
                items[item.uri] = item
        if not items:
            raise SourceError(
                f"no object of {self.address}/{self.shown_prefix} matches {self.pattern}"
            )
        for name in sorted(items):
            public = f"{self.shown_prefix}{name[len(self.prefix) :]}"
            peek = None if name == self.prefix else items[name].peek
            yield items[name]._replace(uri=f"{self.address}/{public}", peek=peek)

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
