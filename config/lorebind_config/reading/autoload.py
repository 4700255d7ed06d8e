"""Finds the further files of a project, by `autoload` or by name; each declares one thing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lorebind_config.declarations.project import RESOURCES, AutoloadDeclaration
from lorebind_config.declarations.workflows import WorkflowDeclaration, WorkflowFile
from lorebind_config.errors import Problem, nearest


def wrong_with(root: Path, name: str) -> str:
    """Return what is wrong with the name of a file in the project folder; empty if nothing is.

    The name may be any string: too long, with a null byte, or of a link to itself.
    """
    try:
        real = Path(os.path.realpath(root / name))
    except ValueError:  # not a possible file name
        return f"there is no file {name!r}"
    if not real.is_relative_to(os.path.realpath(root)):
        return f"{name!r} leads out of the project folder"
    return "" if os.path.isfile(real) else f"there is no file {name!r}"


KINDS = ("agent", "workflow", *RESOURCES)
"""The kinds that a file may declare under its key `resource`."""


def autoload_files(
    root: Path, autoload: AutoloadDeclaration, project_file: Path | None
) -> tuple[list[Path], list[Problem]]:
    """Return the files that the patterns match, sorted, and the problems of the patterns.

    A pattern may match nothing, but a file named without wildcards must exist. The project file is
    never returned, and links that lead out of the project folder are refused. Patterns that could
    not be read match nothing. If one of `exclude` could not be read, no files are returned, since
    it may have excluded any of them.
    """
    from wcmatch import glob  # takes 8 ms, and few projects have patterns

    flags = glob.GLOBSTAR | glob.NODIR
    matches: set[str] = set()
    problems: list[Problem] = []
    exclude = autoload.exclude
    include = autoload.include if _readable(exclude) else []
    for index, pattern in enumerate(include):
        if not _readable([pattern]):
            continue
        names = glob.glob(pattern, flags=flags, root_dir=root, exclude=exclude or None, limit=0)
        named_outright = not names and not glob.is_magic(pattern, flags=flags)
        for name in [pattern] if named_outright else names:
            if wrong := wrong_with(root, name):
                problems.append(autoload.problem(("include", index), wrong))
            elif not named_outright:  # otherwise `exclude` matches the file
                matches.add(Path(name).as_posix())
    files = [root / name for name in sorted(matches)]
    return [file for file in files if file != project_file], problems


def misspelled_folders(root: Path, autoload: AutoloadDeclaration) -> Iterator[Problem]:
    """Find patterns that begin with a missing folder whose name resembles one that exists.

    Any other pattern without files may be meant for files that are written later.
    """
    from wcmatch import glob  # as above

    folders = [entry.name for entry in root.iterdir() if entry.is_dir()]
    for index, pattern in enumerate(autoload.include):
        first, slash, _ = pattern.partition("/")
        if not slash or glob.is_magic(first) or first in (*folders, ".", ".."):
            continue
        if near := nearest(first, folders):
            message = f"{pattern!r} matches no file, because there is no folder {first!r}"
            yield autoload.problem(("include", index), message, f"did you mean {near!r}?")


def workflow_files(
    root: Path, entries: Iterable[WorkflowDeclaration | WorkflowFile]
) -> tuple[list[Path], list[Problem]]:
    """Return the files named by `workflows: [{source: …}]`, and the problems of the names."""
    files: list[Path] = []
    problems: list[Problem] = []
    for entry in entries:
        if not isinstance(entry, WorkflowFile) or not _readable([entry.source]):
            continue
        file = root / Path(entry.source)
        if wrong := wrong_with(root, entry.source):
            problems.append(entry.problem(("source",), wrong))
        elif file not in files:
            files.append(file)
    return files, problems


def names_all(autoload: AutoloadDeclaration) -> bool:
    """Return whether all patterns could be read; if not, there may be more files."""
    return _readable(autoload.include) and _readable(autoload.exclude)


def _readable(patterns: Iterable[object]) -> bool:
    return all(isinstance(pattern, str) for pattern in patterns)


def kind_of(data: Mapping[str, Any]) -> str | None:
    """Return the kind of thing that a file declares; None if its `resource` is unknown.

    The kind is the value of `resource`, or else follows from the other keys. A misspelled word
    counts as the known word that is nearest to it.
    """
    resource = data.get("resource")
    if isinstance(resource, str) and resource:
        return nearest(resource, KINDS)
    if nearest("tasks", data) is not None:
        return "workflow"
    return "knowledge_base" if "sources" in data else "agent"
