"""`lorebind knowledge watch`: ingest whenever a file changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from lorebind.cli.options import Output, OutputOption, ProjectOption
from lorebind_knowledge.errors import LorebindError

if TYPE_CHECKING:
    from lorebind.cli.any_project import AnyProject
    from lorebind.project import Project
    from lorebind.remote import RemoteProject
    from lorebind_knowledge.ingest.report import IngestPlan

_DECLARATIONS = (".yaml", ".yml", ".env")
_PAUSE_SECONDS = 1.5
"""Seconds until the command tries again to reach a server."""


def watch(
    kb_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Default: every knowledge base.")
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            "--every", min=0.1, help="Also ingest after this many minutes, for web sources."
        ),
    ] = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Ingest now, and again whenever a file of the project changes, until Ctrl-C.

    Changes to lorebind.yaml or .env also take effect; a server must be restarted for them. A
    failing ingest is reported, and the command waits for the next change.
    """
    from lorebind.cli.given import given_server_project
    from lorebind.cli.ingesting import knowledge_bases
    from lorebind.cli.opening import open_project
    from lorebind.cli.printing import print_line
    from lorebind_knowledge.extras import import_extra

    if (remote := given_server_project()) is not None:
        with remote:
            _watch_server(remote, kb_id, every, output)
    watchfiles = import_extra("watchfiles", extra="watch", purpose="lorebind knowledge watch")
    from lorebind.watching import WatchedFiles

    loaded = open_project(project)
    try:
        files = WatchedFiles(loaded.config)
        print_line(f"Watching {files.root}; stop with Ctrl-C.", stderr=True)
        begun = float("-inf")
        knowledge_bases(loaded, kb_id)  # reports a wrong id immediately
        # Watching starts before the first ingest, so that no change is missed.
        for changes in watchfiles.watch(files.root, **files.options):
            due = begun == float("-inf") or (every and time.monotonic() - begun > every * 60)
            if not (changes or due):
                continue
            begun = time.monotonic()
            if any(path.endswith(_DECLARATIONS) for _, path in changes):
                loaded = _loaded_again(loaded, project)
                files.use(loaded.config)
            _ingest(loaded, kb_id, output)
    finally:
        loaded.close()


def _watch_server(
    project: RemoteProject, kb_id: str | None, every: float | None, output: Output
) -> NoReturn:
    """Watch the files of a server in the same way, also after it was restarted."""
    from lorebind.cli.ingesting import knowledge_bases
    from lorebind.cli.printing import print_line
    from lorebind.remote.errors import ServerError

    print_line(f"Watching the files of {project.url}; stop with Ctrl-C.", stderr=True)
    knowledge_bases(project, kb_id)  # reports a wrong id immediately
    is_lost = False
    while True:
        try:
            for _ in project.changes(every and every * 60):
                is_lost = False
                _ingest(project, kb_id, output)
        except ServerError as error:
            if not error.may_pass:
                raise
            if not is_lost:
                print_line(f"lorebind: {error}; retrying until it answers", stderr=True)
            is_lost = True
        time.sleep(_PAUSE_SECONDS)


def _loaded_again(loaded: Project, path: str) -> Project:
    """Load the project again; if it is not valid, report that and return the current one."""
    from lorebind.cli.opening import opened
    from lorebind.cli.printing import print_line
    from lorebind_knowledge.configuration import load_project

    try:
        config = load_project(path)
    except LorebindError as error:
        print_line(f"lorebind: {error}; the previous declarations stay in effect", stderr=True)
        return loaded
    loaded.close()  # before opening the other, which may need the same port
    try:
        return opened(config)
    except LorebindError as error:
        print_line(f"lorebind: {error}; the previous declarations stay in effect", stderr=True)
        return opened(loaded.config)


def _ingest(loaded: AnyProject, kb_id: str | None, output: Output) -> None:
    from lorebind.cli.ingesting import ingest_with_bars, knowledge_bases
    from lorebind.cli.printing import plan_line, print_data, print_line

    for name, workflow, _ in knowledge_bases(loaded, kb_id):
        try:
            plan = loaded.plan(name, workflow=workflow)
            if not _has_news(plan):
                continue
            if output is Output.table:
                print_line(plan_line(plan))
            report = ingest_with_bars(loaded, name, plan, output, workflow=workflow, wait=True)
        except LorebindError as error:
            print_line(f"lorebind: {name}: {error}", stderr=True)
        else:
            if output is not Output.table:
                print_data(report, output)


def _has_news(plan: IngestPlan) -> bool:
    changed = any(plan.documents[name] for name in ("added", "updated", "removed", "failed"))
    return (
        changed
        or bool(plan.notices)
        or any(source.status == "failed" or source.unlisted for source in plan.sources)
    )
