"""Files of the project that match glob patterns, for `markdown_glob`, `file_glob` and others."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError
from lorebind_config.declarations.sources import DEFAULT_MAX_BYTES, SourceBase, one_of
from lorebind_config.declarations.values import FilePattern
from lorebind_config.errors import SourceError
from lorebind_config.open_inside import OutsideError, open_inside
from lorebind_knowledge.sources.base import Content, SourceItem, ending_of, too_large
from lorebind_knowledge.sources.folder.gitignore import GITIGNORE
from lorebind_knowledge.sources.folder.path_templates import TemplatedFiles
from lorebind_knowledge.sources.folder.walk import EVERY_FILE, LINKS_OUT, files_below, matcher

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from lorebind_knowledge.sources.environment import SourceEnvironment

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


def make_files(
    declaration: Files, kind: str, environment: SourceEnvironment, endings: tuple[str, ...] = ()
) -> FileSource | TemplatedFiles:
    """Return the source of the declared files with one of these extensions."""
    globs = declaration if isinstance(declaration, GlobSource) else None

    def files(patterns: Sequence[str], exclude: Sequence[str]) -> FileSource:
        return FileSource(
            kind,
            patterns,
            environment.root,
            exclude=exclude,
            max_bytes=declaration.max_bytes,
            endings=endings,
            respect_gitignore=declaration.respect_gitignore,
            in_folder=globs.in_folder if globs else EVERY_FILE,
            as_text=globs.as_text if globs else (),
            shown_as=declaration.patterns,
            settings=type(declaration).model_fields,
        )

    patterns, exclude = declaration.patterns, declaration.exclude
    if any("{{" in pattern for pattern in (*patterns, *exclude)):
        return TemplatedFiles(files, patterns, exclude, environment)
    return files(patterns, exclude)


class FileSource:
    """Files below a folder that match any of the patterns, sorted by path; see `files_below`.

    A file whose real path is outside the folder is refused. Files have no version, because the
    modification time can stay the same when a file changes. So each file is read every time.
    """

    def __init__(
        self,
        kind: str,
        patterns: Sequence[str],
        root: Path,
        *,
        exclude: Sequence[str] = (),
        max_bytes: int = DEFAULT_MAX_BYTES,
        endings: tuple[str, ...] = (),
        respect_gitignore: bool = True,
        in_folder: str = EVERY_FILE,
        all_folders: bool = False,
        as_text: Sequence[str] = (),
        place: str = "the project folder",
        shown_as: Sequence[str] | None = None,
        settings: Collection[str] = (),
    ) -> None:
        """Create the source.

        Args:
            kind: the type of the source; part of its key.
            patterns: glob patterns, relative to the folder.
            root: the folder.
            exclude: patterns of files to exclude.
            max_bytes: maximum size of a document.
            endings: allowed extensions, in lower case; empty for all.
            respect_gitignore, in_folder, all_folders: see `files_below`.
            as_text: patterns of files to read as plain text, whatever their extension.
            place: how messages describe the folder.
            shown_as: how messages show the patterns; by default as they are.
            settings: the settings of the declaration, which reports name for skipped files.
        """
        self._kind = kind
        self._patterns = list(patterns)
        self._exclude = list(exclude)
        self._root = root
        self._max_bytes = max_bytes
        self._endings = endings
        self._respect_gitignore = respect_gitignore
        self._in_folder, self._all_folders = in_folder, all_folders
        self.notices: list[str] = []
        self._as_text = matcher(as_text)
        self._place = place
        self._shown_as = list(shown_as or patterns)
        self._settings = settings

    @property
    def key(self) -> str:
        excluded = f" except {','.join(self._exclude)}" if self._exclude else ""
        return f"{self._kind}:{','.join(self._patterns)}{excluded}"

    def items(self) -> Iterator[SourceItem]:
        if not self._root.is_dir():
            raise SourceError(f"the folder {self._root} does not exist")
        found, unmatched, notices = files_below(
            self._root,
            self._patterns,
            exclude=self._exclude,
            respect_gitignore=self._respect_gitignore,
            in_folder=self._in_folder,
            all_folders=self._all_folders,
        )
        # Patterns may contain values of templates, so notices show the patterns as written.
        shown = dict(zip(self._patterns, self._shown_as, strict=True))
        self.notices = [f"{shown[pattern]} matches no file" for pattern in unmatched] + notices
        if not any(one.unlisted or one.name[-1] != "/" for one in found):
            kinds = f"{' or '.join(self._endings)} file" if self._endings else "file"
            passed = ", ".join(f"{one.name} is skipped: {one.skipped}" for one in found[:9])
            raise SourceError(
                f"no {kinds} in {self._root} matches {' or '.join(self._shown_as)}"
                f"{f' ({passed})' if passed else ''}"
            )
        home = os.path.realpath(self._root)
        for one in found:
            # A file name may contain bytes that are not text, but a uri is always text.
            uri = os.fsencode(one.name).decode("utf-8", "backslashreplace")
            skipped, setting = one.skipped, _setting(one.skipped)
            is_file = not (skipped or one.unlisted)
            if self._endings and is_file and not one.name.lower().endswith(self._endings):
                skipped, setting = ending_of(one.name), ""
            is_text = self._as_text(one.name)
            peek = None if one.named or is_text else partial(self._peek, home, one.name)
            read = partial(self._read, home, one.name, uri, "text/plain" if is_text else "")
            setting = setting if setting in self._settings else ""
            yield SourceItem(
                uri, read, skipped=skipped, setting=setting, unlisted=one.unlisted, peek=peek
            )

    def _peek(self, home: str, path: str, size: int | None) -> bytes:
        try:
            with open_inside(home, path) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                return file.read(self._max_bytes if size is None else size) if is_file else b""
        except (OutsideError, OSError) as error:
            raise SourceError(f"{path}: cannot be read") from error

    def _read(self, home: str, path: str, name: str, media_type: str, version: str) -> Content:
        try:
            with open_inside(home, path) as file:
                before = os.fstat(file.fileno())
                if not stat.S_ISREG(before.st_mode):
                    raise SourceError(f"{name}: is not a regular file")
                if before.st_size > self._max_bytes:
                    raise too_large(name, self._max_bytes)
                data = file.read(before.st_size + 1)
                after = os.fstat(file.fileno())
        except OutsideError:
            raise SourceError(f"{name}: is a link to a location outside {self._place}") from None
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
