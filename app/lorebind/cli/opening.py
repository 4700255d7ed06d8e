"""Open the project of a command; `ask` and `chat` also open any folder."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind import trust as trusted
from lorebind.cli.options import log_level
from lorebind.cli.terminal import can_ask, print_line, says_yes
from lorebind_config.errors import UsageError
from lorebind_config.project_files import PROJECT_FILE
from lorebind_config.project_modules import run_only

if TYPE_CHECKING:
    from lorebind.project import Project
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_config.trust import TrustRequirements
    from lorebind_knowledge.events import Extension

FOLDER_KB, FILE_KB = "files", "file"
"""The knowledge bases of a folder and of a single file: they have indexes of their own."""


def load_config(path: str | Path, *, need_variables: bool = False) -> LoadedProject:
    """Load the project at a path; see `load_project`."""
    # The declarations take .15 s to import, here and in other functions: --help needs none.
    from lorebind_config.reading.loading import load_project

    return load_project(path, need_variables=need_variables)


def open_project(path: str | Path) -> Project:
    """Open the project at a path, and log its events if the user asks for logs.

    Args:
        path: the project's folder or file.

    Raises:
        ConfigurationError: the files have problems; the error lists all of them.
    """
    return opened(load_config(path))


def project_to_read(path: str) -> Project:
    """Open a project to read catalogs only.

    Reading sends no events and calls no wrapper, so extensions and wrappers are not created.
    """
    from lorebind.project import Project  # as in `opened`

    loaded = load_config(path)
    alone = loaded.project.model_copy(update={"extensions": [], "wrappers": []})
    return Project(replace(loaded, project=alone))


def opened(config: LoadedProject) -> Project:
    """Open a project from its loaded configuration."""
    # Commands that only read declarations, or use a server, save .14 s without this module.
    from lorebind.project import Project

    level = log_level.get()
    if level is None:
        return Project(config)
    from lorebind_knowledge.extensions.logging import LoggingExtension, set_level

    logs = any(isinstance(extension, LoggingExtension) for extension in config.project.extensions)
    project = Project(config, extensions=[] if logs else extensions())
    set_level(level)  # opening the project has set the level that it declares
    return project


def extensions() -> list[Extension]:
    """Return the extension that logs events, if the user asks for logs."""
    if not log_level.get():
        return []
    from lorebind_knowledge.extensions.logging import EventLog

    return [EventLog()]


def project_at(path: Path, *, trusted: bool, no_vectors: bool) -> Project:
    """Open the project at the path, or build one for a plain folder or a single document.

    Args:
        path: the user's.
        trusted: whether the user allows what the project demands.
        no_vectors: whether a folder is searched by words and terms only.

    Raises:
        UsageError: the path is none of these, or the project is not trusted yet.
    """
    from lorebind_config.trust import demands_of

    config = config_at(path, no_vectors=no_vectors)
    demands = demands_of(config)
    if not trusted:
        _check_trusted(demands, path)
    # The files may have changed since the user saw the demands.
    run_only(demands.root, demands.modules)
    return opened(config)


def config_at(path: Path, *, no_vectors: bool = False) -> LoadedProject:
    """Load the project at the path, or build one for a plain folder or a single document.

    Raises:
        UsageError: the path is none of these.
        ConfigurationError: the project is not valid.
    """
    is_document = path.is_file() and path.suffix not in (".yaml", ".yml")
    if not is_document and (path.is_file() or (path / PROJECT_FILE).is_file()):
        if no_vectors:
            raise UsageError(
                "--no-vectors is for folders without a project; write `embedder: none` at the "
                "knowledge base instead"
            )
        return load_config(path)
    if not is_document and not path.is_dir():
        raise UsageError(f"{path} is neither a folder nor a file; give one with documents")
    from lorebind_config.declarations.embedders import NONE
    from lorebind_config.reading.loading import build_project

    source: dict[str, Any] = {"type": "file_glob", "path": "**/*"}
    if is_document:
        from wcmatch import glob  # no other command needs it

        source |= {"path": glob.escape(path.name, unix=True), "respect_gitignore": False}
    knowledge_base: dict[str, Any] = {
        "id": FILE_KB if is_document else FOLDER_KB,
        "sources": [source],
        # Chunks of this size rarely exceed the embedder's input limit, even for code and tables.
        "chunking": {"size": 600, "overlap": 90},
        **({"embedder": NONE} if no_vectors else {}),
    }
    root = path.parent if is_document else path
    return build_project({"name": "ask", "knowledge_bases": [knowledge_base]}, root=root)


def _check_trusted(demands: TrustRequirements, path: Path) -> None:
    """Show what the user has not granted yet; ask for it in a terminal.

    Args:
        demands: what the project needs trust for.
        path: how the user named the project.

    Raises:
        UsageError: the project is not trusted.
    """
    missing = trusted.not_granted(demands)
    for demand in missing:
        print_line(str(demand), stderr=True)
    if not missing:
        return
    if can_ask():
        if says_yes("Do you trust the project with this?"):
            trusted.trust(demands)
            return
        raise UsageError("the project is not trusted, and nothing of it was run")
    raise UsageError(
        "this project is not trusted, and demands the permissions listed above; read its files, "
        f"then trust it with: lorebind trust {shlex.quote(str(path))}; or for this run with --trust"
    )
