"""Open the project of a command; `ask` and `chat` also open any folder and update its index."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind import trust as trusted
from lorebind.cli.ingesting import ingest_with_bars, show_plan
from lorebind.cli.options import Output, log_level
from lorebind.cli.printing import print_skipped, without_text
from lorebind.cli.terminal import can_ask, print_line, says_yes
from lorebind_config.errors import ReadOnlyError, SourceError, UsageError
from lorebind_config.project_files import PROJECT_FILE
from lorebind_config.project_modules import run_only
from lorebind_knowledge.plumbing.lanes import usable_processors

if TYPE_CHECKING:
    from lorebind.knowledge_base import KnowledgeBase
    from lorebind.project import Project
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_config.trust import TrustRequirements
    from lorebind_knowledge.events import Extension
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport

FOLDER_KB, FILE_KB = "files", "file"
"""The knowledge bases of a folder and of a single file: they have indexes of their own."""
_TEXTS_A_SECOND, _LONG = 20, 120
"""The texts that a processor embeds in a second with the local models, and the time in seconds from
which a faster way is worth a note."""


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


def ingested(project: Project, output: Output) -> list[IngestReport]:
    """Update all knowledge bases of a project, with progress bars if `output` is `table`."""
    declared = project.config.project.knowledge_bases
    reports = (_ingest(project, project.knowledge_base(kb.id), output) for kb in declared)
    return [report for report in reports if report is not None]


def _ingest(project: Project, kb: KnowledgeBase, output: Output) -> IngestReport | None:
    """Update a knowledge base; for a folder without any text, write nothing.

    Returns None for a read-only index, which does not change.
    """
    try:
        plan = show_plan(kb, output)
    except ReadOnlyError:  # others fill the knowledge base
        return None
    # The index of a plain folder is only a cache of it, so it may shrink as the folder does.
    from_folder = project.config.file is None
    if from_folder and output is Output.table:
        _say_what_is_faster(plan)
    if from_folder and not (plan.chunks["total"] or plan.pages_to_recognize):
        reasons = [source.reason for source in plan.sources if source.status == "failed"]
        reasons += dict.fromkeys(failure.reason for failure in plan.failures)
        reasons += [without_text(plan)] if plan.without_text else []
        if output is Output.table:
            print_skipped(plan.sources)
            _say_where_settings_are(project, plan)
        raise SourceError(f"there is nothing to search in {kb.id!r}: {'; '.join(reasons)}")
    try:
        report = ingest_with_bars(
            kb,
            project.events,
            output,
            plan=plan,
            allow_mass_delete=from_folder,
            wait=True,
            brief=True,
        )
    except ReadOnlyError:
        return None
    if from_folder and output is Output.table:
        _say_where_settings_are(project, report)
    return report


def _say_what_is_faster(plan: IngestPlan) -> None:
    seconds = plan.texts_to_embed / (_TEXTS_A_SECOND * usable_processors())
    if seconds > _LONG:
        print_line(
            f"note: this will take about {seconds / 60:.0f} minutes, once; with --no-vectors, "
            "which searches by words and related words only, about a quarter of that"
        )


def _say_where_settings_are(project: Project, report: IngestPlan | IngestReport) -> None:
    """Explain how to change settings in a plain folder, if the printed report may name some."""
    if report.failures or any(item.setting for source in report.sources for item in source.skipped):
        root, here = Path(project.config.root), Path.cwd()
        folder = root.relative_to(here) if root.is_relative_to(here) else root
        where = "" if root == here else f" {shlex.quote(str(folder))}"
        print_line(
            "note: the settings of a source belong in a lorebind.yaml; to create one, run: "
            f"lorebind init{where}"
        )


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
