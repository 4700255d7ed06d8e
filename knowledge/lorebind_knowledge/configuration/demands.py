"""Lists everything a project needs the user's trust for: code to run, variables to read, and more.

`lorebind ask` shows the list for a project that its user has not trusted yet. To find it, nothing
is imported from the project folder, and no variable is read.
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
    """One thing that a project needs trust for, and its position in the file."""

    file: str
    line: int
    column: int
    by: str
    """The declaration that needs it, such as `embedder 'mine'`."""
    wants: Wants
    what: str
    """The subject, such as `hooks:Audit, in hooks.py` or `the variable OPENAI_API_KEY`."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.by} wants to {self.wants} {self.what}"


@dataclass(frozen=True, slots=True)
class Demands:
    """Everything that a project needs trust for."""

    root: FilePath
    """The project folder, with links resolved."""
    all: tuple[Demand, ...]
    """The demands, sorted by file and line."""
    digest: str
    """Hash of the project's declarations and of the modules in its folder that they name."""


class _EverySet(UserDict[str, str]):
    """An environment in which every variable is set, to validate without reading any of them."""

    def get(self, key: str, default: Any = None) -> Any:
        return key


def read_demands(path: str | FilePath) -> Demands:
    """Return everything that the project at a path needs trust for.

    Args:
        path: Folder or file of the project; see `load_project`.

    Raises:
        ConfigurationError: The project is not valid or does not exist.
        UsageError: A module that the project names cannot be read.
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
    """Return a hash of a file's bytes."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error


def _tops(loaded: LoadedProject) -> list[Declaration]:
    """Return the declarations of all files of a project, each of them once."""
    project = loaded.project.model_copy(update={"agents": [], "workflows": []})
    return [project, *loaded.agents.values(), *loaded.workflows.values()]


def _with_owners(top: Declaration) -> Iterator[tuple[Declaration, str]]:
    """Yield a declaration and all nested ones, each with the name of its nearest named owner."""
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
        home = f"in {files[-1].relative_to(root)}" if files else "from an installed package"
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
