"""The further files of a project, found by `autoload` or named, each of one thing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.named_files import wrong_with
from lorebind_knowledge.configuration.references import problem_at
from lorebind_knowledge.declarations.resources import RESOURCES
from lorebind_knowledge.declarations.workflows import WorkflowDeclaration, WorkflowFile
from lorebind_knowledge.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lorebind_knowledge.declarations.project import AutoloadDeclaration
    from lorebind_knowledge.errors import Problem

KINDS = ("agent", "workflow", *RESOURCES)
"""What a file may declare, as its `resource` says."""


def autoload_files(
    root: Path, autoload: AutoloadDeclaration, project_file: Path | None
) -> tuple[list[Path], list[Problem]]:
    """The files that the patterns match, sorted, and what is wrong with the patterns.

    A pattern may match nothing; a file that is named outright must be there. The project file is
    never one of them, and links that lead out of the project folder are refused. Patterns that
    could not be read match nothing; where one of `exclude` is among them, nothing is read that it
    may have meant.
    """
    from wcmatch import glob

    flags = glob.GLOBSTAR | glob.NODIR
    found: set[str] = set()
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
                problems.append(problem_at(autoload, ("include", index), wrong))
            elif not named_outright:  # else it is one of those excluded
                found.add(Path(name).as_posix())
    files = [root / name for name in sorted(found)]
    return [file for file in files if file != project_file], problems


def workflow_files(
    root: Path, entries: Iterable[WorkflowDeclaration | WorkflowFile]
) -> tuple[list[Path], list[Problem]]:
    """The files that `workflows: [{source: …}]` names, and what is wrong with the names."""
    found: list[Path] = []
    problems: list[Problem] = []
    for entry in entries:
        if not isinstance(entry, WorkflowFile) or not _readable([entry.source]):
            continue
        file = root / Path(entry.source)
        if wrong := wrong_with(root, entry.source):
            problems.append(problem_at(entry, ("source",), wrong))
        elif file not in found:
            found.append(file)
    return found, problems


def names_all(autoload: AutoloadDeclaration) -> bool:
    """Whether all its patterns could be read; where not, there may be files beside those found."""
    return _readable(autoload.include) and _readable(autoload.exclude)


def _readable(patterns: Iterable[object]) -> bool:
    return all(isinstance(pattern, str) for pattern in patterns)


def kind_of(data: Mapping[str, Any]) -> str | None:
    """What a file declares: its `resource` says so, else its keys do; None for an unknown word.

    Words that are nearly these are read as they are meant.
    """
    resource = data.get("resource")
    if isinstance(resource, str) and resource:
        return nearest(resource, KINDS)
    if nearest("tasks", data) is not None:
        return "workflow"
    return "knowledge_base" if "sources" in data else "agent"
