"""Files of the project that match glob patterns, for `markdown_glob`, `file_glob` and others."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lorebind_config.dates import date_of
from lorebind_config.declarations.base import Fault, RefusedError, empty_list
from lorebind_config.declarations.sources import SourceBase, one_of
from lorebind_config.declarations.values import FilePattern
from lorebind_config.document_sizes import DEFAULT_MAX_BYTES, Limit, SizeLimit, too_large
from lorebind_config.errors import SourceError
from lorebind_config.project_files import OutsideError, leads_to, open_inside
from lorebind_knowledge.sources.base import PLAIN_TEXT, Content, SourceItem, ending_of
from lorebind_knowledge.sources.folder.gitignore import GITIGNORE
from lorebind_knowledge.sources.folder.path_templates import TemplatedFiles
from lorebind_knowledge.sources.folder.sidecars import LIMIT, Sidecars, metadata_in
from lorebind_knowledge.sources.folder.walk import EVERY_FILE, LINKS_OUT, Listing, matcher

if TYPE_CHECKING:
    from lorebind_knowledge.sources.folder.walk import Entry
    from lorebind_knowledge.sources.make import SourceEnvironment

_YOUNG_NS = 2_000_000_000
"""The coarsest clock of a file system, FAT's, ticks every 2 seconds."""

_SETTINGS = {"": "as_text", GITIGNORE: "respect_gitignore", LINKS_OUT: ""}
"""The settings with which files are read that are skipped for a reason; `paths` for any other."""

A_PATH: dict[str, Any] = {"required": ["path"], "properties": {"path": {"type": "string"}}}
PATHS: dict[str, Any] = {"required": ["paths"], "properties": {"paths": {"minItems": 1}}}


class Files(SourceBase):
    """Settings of all sources that read files of the project folder."""

    templated: ClassVar[tuple[str, ...]] = ("path", "paths", "exclude")

    path: FilePattern | None = Field(
        None,
        description="A file, folder or glob pattern, relative to the project folder. The value of "
        "a template in it is a folder, not a pattern.",
    )
    paths: list[FilePattern] = Field(
        default_factory=empty_list, description="More files or patterns, with or without `path`."
    )
    exclude: list[FilePattern] = Field(
        default_factory=empty_list, description="Patterns of files to exclude."
    )
    respect_gitignore: bool = Field(
        True, description="Whether to skip files that a `.gitignore` excludes."
    )

    verify: Literal["stat", "content"] = Field(
        "stat",
        description="How an ingest detects that a file has not changed. With `stat`, it does not "
        "read files whose size, times of modification and change, inode and device are those of "
        "the last ingest. With `content`, it reads every file.",
    )

    @property
    def has_files(self) -> bool:
        return bool(self.patterns)

    @property
    def patterns(self) -> list[str]:
        """All patterns of the source, in the order written: `path`, then `paths`."""
        return ([self.path] if self.path is not None else []) + self.paths


class GlobSource(Files):
    """Settings that `markdown_glob` and `file_glob` share."""

    declares_uris: ClassVar[bool] = True
    in_folder: ClassVar[str] = EVERY_FILE
    """Pattern of the files to read in a folder that `path` names."""

    as_text: list[FilePattern] = Field(
        default_factory=empty_list,
        description="Patterns of files to read as plain text, whatever their extension.",
    )
    model_config = one_of(A_PATH, PATHS)  # the same as `_has_a_pattern`

    @model_validator(mode="after")
    def _has_a_pattern(self) -> GlobSource:
        if not self.patterns:
            raise RefusedError([Fault("the source names no files", "write 'path' or 'paths'")])
        return self

    @property
    def names(self) -> list[str]:
        return self.patterns


class MarkdownGlobSource(GlobSource):
    """Markdown files of the project folder."""

    in_folder: ClassVar[str] = "**/*.{md,markdown,mdx}"

    type: Literal["markdown_glob"] = Field(description="Markdown files, by pattern.")


class FileGlobSource(GlobSource):
    """Files of the project folder, in any supported format."""

    type: Literal["file_glob"] = Field(description="Files in any supported format, by pattern.")


def make_files(
    declaration: Files, environment: SourceEnvironment, endings: tuple[str, ...] = ()
) -> FileSource | TemplatedFiles:
    """Return the source of the declared files with one of these extensions."""
    kind = getattr(declaration, declaration.kind_key)
    globs: dict[str, Any] = {}
    if isinstance(declaration, GlobSource):
        globs = {"in_folder": declaration.in_folder, "as_text": declaration.as_text}

    def files(
        patterns: Sequence[str], exclude: Sequence[str], display: Callable[[str], str] = str
    ) -> FileSource:
        return FileSource(
            kind,
            patterns,
            environment.root,
            exclude=exclude,
            max_bytes=declaration.max_bytes,
            max_scan_bytes=declaration.max_scan_bytes,
            endings=endings,
            respect_gitignore=declaration.respect_gitignore,
            verify=declaration.verify,
            sidecar=(declaration.metadata and declaration.metadata.sidecar) or "",
            shown_as=declaration.patterns,
            display=display,
            settings=type(declaration).model_fields,
            **globs,
        )

    patterns, exclude = declaration.patterns, declaration.exclude
    if any("{{" in pattern for pattern in (*patterns, *exclude)):
        return TemplatedFiles(files, patterns, exclude, environment)
    return files(patterns, exclude)


MARKDOWN_GLOB = SimpleNamespace(Declaration=MarkdownGlobSource, make=make_files)
FILE_GLOB = SimpleNamespace(Declaration=FileGlobSource, make=make_files)


@dataclass(eq=False)
class FileSource:
    """Files below a folder that match any of the patterns, sorted by path; see `Listing`.

    A file whose real path is outside the folder is refused. The version of a file consists of its
    size, times of modification and change, inode and device, and of those of its sidecar: programs
    can set the modification time, but not the others. A file has no version yet if it may change
    again within the same tick of the clock, as in git ("racy git problem" in its documentation).
    """

    kind: str
    """The type of the source; part of its key."""
    patterns: Sequence[str]
    """Glob patterns, relative to the folder."""
    root: Path
    _: KW_ONLY
    exclude: Sequence[str] = ()
    """Patterns of files to exclude."""
    max_bytes: int = DEFAULT_MAX_BYTES
    max_scan_bytes: int = 0
    """Of a PDF or an image, see `SizeLimit`."""
    endings: tuple[str, ...] = ()
    """Allowed extensions, in lower case; empty for all."""
    respect_gitignore: bool = True
    in_folder: str = EVERY_FILE
    all_folders: bool = False
    """These three: see `Listing`."""
    verify: str = "stat"
    """`stat` or `content`: whether files have versions."""
    as_text: Sequence[str] = ()
    """Patterns of files to read as plain text, whatever their extension."""
    sidecar: str = ""
    """The pattern of `Sidecars`; empty if documents have none."""
    place: str = "the project folder"
    """How messages describe the folder."""
    shown_as: Sequence[str] = ()
    """How messages show the patterns; by default as they are."""
    display: Callable[[str], str] = str
    """How messages show a uri; by default as it is."""
    settings: Collection[str] = ()
    """The settings of the declaration, which reports name for skipped files."""
    notices: list[str] = field(default_factory=list, init=False)

    @property
    def key(self) -> str:
        excluded = f" except {','.join(self.exclude)}" if self.exclude else ""
        return f"{self.kind}:{','.join(self.patterns)}{excluded}"

    def items(self) -> Iterator[SourceItem]:
        if not self.root.is_dir():
            raise SourceError(f"the folder {self.root} does not exist")
        listing = Listing(
            self.root,
            self.patterns,
            exclude=self.exclude,
            respect_gitignore=self.respect_gitignore,
            in_folder=self.in_folder,
            all_folders=self.all_folders,
        )
        has_sidecar = False
        folders: set[str] = set()
        for entry in self._unless_empty(listing):
            name = entry.name
            # Most names are ASCII, for which this is faster.
            token = name.encode() if name.isascii() else os.fsencode(name)
            uri = name if name.isascii() else _uri(token)
            skipped, setting = entry.skipped, _setting(entry.skipped)
            is_file = not (skipped or entry.unlisted)
            if self.endings and is_file and not name.lower().endswith(self.endings):
                skipped, setting, is_file = ending_of(name), "", False
            if self._sidecars and is_file:
                folders.add(name.rpartition("/")[0])
                if self._sidecars.is_one(name):
                    skipped, setting, is_file = "sidecars", "", False
                elif not has_sidecar:
                    has_sidecar = self._sidecar_of(name) is not None
            media_type = self._media_type(name)
            peek = None if entry.named or media_type else partial(self._peek, name)
            yield SourceItem(
                uri,
                partial(self._read, name, uri, media_type),
                skipped,
                setting if setting in self.settings else "",
                entry.unlisted,
                peek,
                self._listed_version(name, media_type) if is_file else "",
                token,
            )
        # Patterns may contain values of templates, so notices show the patterns as written.
        as_written = dict(zip(self.patterns, self.shown_as or self.patterns, strict=True))
        unmatched = [f"{as_written[pattern]} matches no file" for pattern in listing.unmatched]
        self.notices = [*unmatched, *listing.notices]
        if self._sidecars:
            orphans = [*self._orphans(self._sidecars, folders)]
            self.notices += self._sidecars.notices(orphans, are_used=has_sidecar)

    def restore(self, token: bytes) -> SourceItem:
        """Return a listed item; see `SourceItem.token`."""
        name, uri = os.fsdecode(token), _uri(token)
        return SourceItem(uri, partial(self._read, name, uri, self._media_type(name)), token=token)

    def _unless_empty(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield the entries.

        Raises:
            SourceError: there are only skipped folders.
        """
        passed: list[Entry] = []
        listed = iter(entries)
        for entry in listed:
            passed.append(entry)
            if entry.unlisted or not entry.name.endswith("/"):
                yield from passed
                yield from listed
                return
        shown_as = " or ".join(self.shown_as or self.patterns)
        kinds = f"{' or '.join(self.endings)} file" if self.endings else "file"
        names = ", ".join(f"{entry.name} is skipped: {entry.skipped}" for entry in passed[:9])
        raise SourceError(
            f"no {kinds} in {self.root} matches {shown_as}{f' ({names})' if names else ''}"
        )

    @cached_property
    def _home(self) -> str:
        return os.path.realpath(self.root)

    @cached_property
    def _is_text(self) -> Callable[[str], bool]:
        return matcher(self.as_text)

    @cached_property
    def _sidecars(self) -> Sidecars | None:
        return Sidecars(self.sidecar) if self.sidecar else None

    def _sidecar_of(self, path: str) -> str | None:
        return self._sidecars.path_of(self._home, path) if self._sidecars else None

    def _orphans(self, sidecars: Sidecars, folders: Iterable[str]) -> Iterator[str]:
        """Yield how messages show the sidecars in the folders that have no document."""
        for folder in sorted(folders):
            if leads_to(self.root, folder) is None:
                for name in sidecars.orphans(f"{self._home}/{folder}"):
                    path = f"{folder}/{name}" if folder else name
                    yield self.display(_uri(os.fsencode(path)))

    def _limit(self, path: str) -> Limit:
        return SizeLimit(self.max_bytes, self.max_scan_bytes).of(path)

    def _media_type(self, path: str) -> str:
        return PLAIN_TEXT if self._is_text(path) else ""

    def _listed_version(self, path: str, media_type: str) -> str:
        """Return the version of a file; empty for links and others that reading may refuse."""
        if self.verify != "stat":
            return ""
        try:
            states = [os.lstat(f"{self._home}/{path}")]
            if (sidecar := self._sidecar_of(path)) is not None:
                states.append(os.lstat(f"{self._home}/{sidecar}"))
        except (OSError, ValueError):
            return ""
        size = states[0].st_size
        # No limit is lower than `max_bytes`, so the limit of most files need not be looked up.
        if size > self.max_bytes and size > self._limit(path).size:
            return ""
        for status in states:
            if not stat.S_ISREG(status.st_mode):
                return ""
        return _version(states, media_type)

    def _peek(self, path: str, size: int | None) -> bytes:
        try:
            with open_inside(self._home, path) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                return (
                    file.read(self._limit(path).size if size is None else size) if is_file else b""
                )
        except (OutsideError, OSError) as error:
            raise SourceError(f"{path}: cannot be read") from error

    def _read(self, path: str, name: str, media_type: str, version: str) -> Content:
        began = time.time_ns()
        data, status = self._data(path, name, self._limit(path))
        states, metadata = [status], {}
        if (sidecar := self._sidecar_of(path)) is not None:
            label = f"{name}: its sidecar {_uri(os.fsencode(sidecar))}"
            values, of_sidecar = self._data(sidecar, label, LIMIT)
            states.append(of_sidecar)
            metadata = metadata_in(values, label)
        changed = max(max(state.st_mtime_ns, state.st_ctime_ns) for state in states)
        # A file that was just written can change again within the same tick of the clock.
        is_named = changed + _YOUNG_NS <= began and self.verify == "stat"
        version = _version(states, media_type) if is_named else ""
        return Content(data, media_type, version, metadata, modified=date_of(status.st_mtime))

    def _data(self, path: str, name: str, limit: Limit) -> tuple[bytes, os.stat_result]:
        """Return the bytes of a file, and its state before.

        Raises:
            SourceError: it cannot be read, or is larger than the limit.
        """
        try:
            with open_inside(self._home, path) as file:
                before = os.fstat(file.fileno())
                if not stat.S_ISREG(before.st_mode):
                    raise SourceError(f"{name}: is not a regular file")
                if before.st_size > limit.size:
                    raise too_large(name, limit)
                # A byte more than it had shows that it has grown.
                data = file.read(before.st_size + 1)
                after = os.fstat(file.fileno())
        except OutsideError:
            raise SourceError(f"{name}: is a link to a location outside {self.place}") from None
        except OSError as error:
            raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from error
        same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        if not same or len(data) != before.st_size:
            raise SourceError(f"{name}: changed while it was read; the next ingest tries again")
        return data, before


def _uri(name: bytes) -> str:
    """Return a path as text: a file name may contain bytes that are not."""
    return name.decode("utf-8", "backslashreplace")


def _version(states: Sequence[os.stat_result], media_type: str) -> str:
    """Return the version of a file that is read as this media type, perhaps with a sidecar."""
    return media_type + "~".join(map(_state, states))


def _state(status: os.stat_result) -> str:
    times = status.st_mtime_ns, status.st_ctime_ns
    # Takes half the time of an f-string, and every file of an ingest needs it.
    return "%x-%x-%x-%x-%x" % (status.st_size, *times, status.st_ino, status.st_dev)  # noqa: UP031


def _setting(skipped: str) -> str:
    """Return the setting with which a file is read that is skipped for a reason, or for none."""
    return _SETTINGS.get(skipped, "paths")
