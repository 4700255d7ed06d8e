"""What a project asks for beside the documents in its folder: code to run, variables to read, …

`lorebind ask` shows it of a project that its user has not trusted yet. Finding it imports nothing
of the folder, and looks up no variable.
"""

from __future__ import annotations

import hashlib
import json
from collections import UserDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.loading import load_project
from lorebind_knowledge.configuration.named_code import code_named
from lorebind_knowledge.configuration.template_checks import texts
from lorebind_knowledge.configuration.templates import mentions
from lorebind_knowledge.declarations.base import Declaration, within
from lorebind_knowledge.declarations.places import is_plugins
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.identity import digest
from lorebind_knowledge.project_code import files_of_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path as FilePath

    from lorebind_knowledge.configuration.loaded import LoadedProject
    from lorebind_knowledge.declarations.base import Path, Wants


@dataclass(frozen=True, slots=True, order=True)
class Demand:
    """One thing that a project asks for, and where it does."""

    file: str
    line: int
    column: int
    by: str
    """As `embedder 'mine'`."""
    wants: Wants
    what: str
    """As `hooks:Audit, in hooks.py`, or `the variable OPENAI_API_KEY`."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.by} wants to {self.wants} {self.what}"


@dataclass(frozen=True, slots=True)
class Demands:
    """Everything that a project asks for."""

    root: FilePath
    """The project folder, without links."""
    all: tuple[Demand, ...]
    """By file and line."""
    digest: str
    """Changes with what the project's YAML says, and with the modules of the folder it names."""


class _EverySet(UserDict[str, str]):
    """An environment in which every variable is set: to validate without looking up any."""

    def get(self, key: str, default: Any = None) -> Any:
        return key


def read_demands(path: str | FilePath) -> Demands:
    """What the project at a path asks for; see `load_project`.

    Raises:
        ConfigurationError: the project is not valid, or there is none.
        UsageError: a module that it names cannot be read.
    """
    loaded = load_project(path, environ=_EverySet())
    declared = [inner for top in _tops(loaded) for inner in _with_owners(top)]
    modules = sorted(
        {
            file
            for inner, _ in declared
            for _, named in code_named(inner)
            for file in files_of_project(named, loaded.root)
        }
    )
    written = json.dumps([top.written() for top in _tops(loaded)], sort_keys=True)
    contents = [part for file in modules for part in (str(file), _content(file))]
    found = {demand for inner, by in declared for demand in _demands(inner, by, loaded.root)}
    return Demands(loaded.root, tuple(sorted(found)), digest(written, *contents))


def _content(file: FilePath) -> str:
    """A digest of a file's bytes."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error


def _tops(loaded: LoadedProject) -> list[Declaration]:
    """What all files of a project declare, each declaration once."""
    project = loaded.project.model_copy(update={"agents": [], "workflows": []})
    return [project, *loaded.agents.values(), *loaded.workflows.values()]


def _with_owners(top: Declaration) -> Iterator[tuple[Declaration, str]]:
    """A declaration and all within it, each with what it, or what it is a part of, is called."""
    called: dict[Path, str] = {}
    for inner, path in within(top):
        if inner.label != Declaration.label:
            name = getattr(inner, "id", None)
            called[path] = inner.label if name is None else f"{inner.label} {name!r}"
        around = (path[:end] for end in range(len(path), -1, -1))
        yield inner, next(called[above] for above in around if above in called)


def _demands(declared: Declaration, by: str, root: FilePath) -> Iterator[Demand]:
    def demand(path: Path, wants: Wants, what: str) -> Demand:
        at = declared.position(*path)
        return Demand(at.file, at.line, at.column, by, wants, what)

    for place, named in code_named(declared):
        files = files_of_project(named, root)
        home = f"in {files[-1].relative_to(root)}" if files else "of an installed package"
        yield demand(place, "run", f"{named}, {home}")
    if is_plugins(declared):
        word = getattr(declared, declared.kind_key)
        yield demand((declared.kind_key,), "run", f"the installed plugin {word!r}")
    for field in declared.templated:
        for path, text in texts(getattr(declared, field)):
            for scope, *name in mentions(text):
                if scope in ("env", "secrets"):
                    yield demand((field, *path), "read", f"the variable {'.'.join(name)}")
    for field, wants, what in declared.needs_trust():
        yield demand((field,), wants, what)
