"""Files of the project that match glob patterns, for `markdown_glob`, `file_glob` and others."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError
from lorebind_config.declarations.sources import DEFAULT_MAX_BYTES, SourceBase, one_of
from lorebind_config.declarations.values import FilePattern
from lorebind_config.errors import SourceError
from lorebind_config.project_files import OutsideError, open_inside
from lorebind_knowledge.sources.base import Content, SourceItem, ending_of, too_large
from lorebind_knowledge.sources.folder.gitignore import GITIGNORE
from lorebind_knowledge.sources.folder.path_templates import TemplatedFiles
from lorebind_knowledge.sources.folder.walk import EVERY_FILE, LINKS_OUT, files_below, matcher

if TYPE_CHECKING:
    from lorebind_knowledge.sources.make import SourceEnvironment

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
        default_factory=list, description="More files or patterns, with or without `path`."
    )
    exclude: list[FilePattern] = Field(
        default_factory=list, description="Patterns of files to exclude."
    )
    respect_gitignore: bool = Field(
        True, description="Whether to skip files that a `.gitignore` excludes."
    )

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
        default_factory=list,
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

    def files(patterns: Sequence[str], exclude: Sequence[str]) -> FileSource:
        return FileSource(
            kind,
            patterns,
            environment.root,
            exclude=exclude,
            max_bytes=declaration.max_bytes,
            endings=endings,
            respect_gitignore=declaration.respect_gitignore,
            shown_as=declaration.patterns,
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
    """Files below a folder that match any of the patterns, sorted by path; see `files_below`.

    A file whose real path is outside the folder is refused. Files have no version, because the
    modification time can stay the same when a file changes. So each file is read every time.
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
    endings: tuple[str, ...] = ()
    """Allowed extensions, in lower case; empty for all."""
    respect_gitignore: bool = True
    in_folder: str = EVERY_FILE
    all_folders: bool = False
    """These three: see `files_below`."""
    as_text: Sequence[str] = ()
    """Patterns of files to read as plain text, whatever their extension."""
    place: str = "the project folder"
    """How messages describe the folder."""
    shown_as: Sequence[str] = ()
    """How messages show the patterns; by default as they are."""
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
        entries, unmatched, notices = files_below(
            self.root,
            self.patterns,
            exclude=self.exclude,
            respect_gitignore=self.respect_gitignore,
            in_folder=self.in_folder,
            all_folders=self.all_folders,
        )
        # Patterns may contain values of templates, so notices show the patterns as written.
        shown_as = self.shown_as or self.patterns
        as_written = dict(zip(self.patterns, shown_as, strict=True))
        self.notices = [f"{as_written[pattern]} matches no file" for pattern in unmatched] + notices
        if not any(entry.unlisted or entry.name[-1] != "/" for entry in entries):
            kinds = f"{' or '.join(self.endings)} file" if self.endings else "file"
            passed = ", ".join(f"{entry.name} is skipped: {entry.skipped}" for entry in entries[:9])
            raise SourceError(
                f"no {kinds} in {self.root} matches {' or '.join(shown_as)}"
                f"{f' ({passed})' if passed else ''}"
            )
        home, read_as_text = os.path.realpath(self.root), matcher(self.as_text)
        for entry in entries:
            # A file name may contain bytes that are not text, but a uri is always text.
            uri = os.fsencode(entry.name).decode("utf-8", "backslashreplace")
            skipped, setting = entry.skipped, _setting(entry.skipped)
            is_file = not (skipped or entry.unlisted)
            if self.endings and is_file and not entry.name.lower().endswith(self.endings):
                skipped, setting = ending_of(entry.name), ""
            is_text = read_as_text(entry.name)
            peek = None if entry.named or is_text else partial(self._peek, home, entry.name)
            read = partial(self._read, home, entry.name, uri, "text/plain" if is_text else "")
            setting = setting if setting in self.settings else ""
            yield SourceItem(
                uri, read, skipped=skipped, setting=setting, unlisted=entry.unlisted, peek=peek
            )

    def _peek(self, home: str, path: str, size: int | None) -> bytes:
        try:
            with open_inside(home, path) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                return file.read(self.max_bytes if size is None else size) if is_file else b""
        except (OutsideError, OSError) as error:
            raise SourceError(f"{path}: cannot be read") from error

    def _read(self, home: str, path: str, name: str, media_type: str, version: str) -> Content:
        try:
            with open_inside(home, path) as file:
                before = os.fstat(file.fileno())
                if not stat.S_ISREG(before.st_mode):
                    raise SourceError(f"{name}: is not a regular file")
                if before.st_size > self.max_bytes:
                    raise too_large(name, self.max_bytes)
                data = file.read(before.st_size + 1)
                after = os.fstat(file.fileno())
        except OutsideError:
            raise SourceError(f"{name}: is a link to a location outside {self.place}") from None
        except OSError as error:
            raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from error
        same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        if not same or len(data) != before.st_size:
            raise SourceError(f"{name}: changed while it was read; the next ingest tries again")
        return Content(data, media_type)


def _setting(skipped: str) -> str:
    """Return the setting with which a file is read that is skipped for a reason, or for none."""
    special = {"": "as_text", GITIGNORE: "respect_gitignore", LINKS_OUT: ""}
    return special.get(skipped, "paths")
