"""`lorebind knowledge watch`: ingest whenever a file changes."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from lorebind.cli.ingesting import ingest_with_bars, knowledge_bases, print_heading
from lorebind.cli.opening import load_config, open_project, opened
from lorebind.cli.options import Output, OutputOption, ProjectOption
from lorebind.cli.printing import plan_line, print_data
from lorebind.cli.target import target_server
from lorebind.cli.terminal import print_line
from lorebind.watching import WatchedFiles
from lorebind_config.errors import LorebindError, NotFoundError
from lorebind_config.plugins import import_extra

if TYPE_CHECKING:
    from lorebind.cli.target import AnyProject
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
    failing ingest is reported, and the command waits for the next change. It reports a broken
    document again when the file changes, or with --every.
    """
    if (remote := target_server()) is not None:
        with remote:
            _watch_server(remote, kb_id, every, output)
    watchfiles = import_extra("watchfiles", extra="watch", purpose="lorebind knowledge watch")

    loaded = open_project(project)
    try:
        files = WatchedFiles(loaded.config)
        print_line(f"Watching {files.root}; stop with Ctrl-C.", stderr=True)
        begun = float("-inf")
        rounds = _Rounds(kb_id, output)
        knowledge_bases(loaded, kb_id)  # reports a wrong id immediately
        # Watching starts before the first ingest, so that no change is missed.
        for changes in watchfiles.watch(files.root, **files.options):
            due = begun == float("-inf") or (every and time.monotonic() - begun > every * 60)
            if not (changes or due):
                continue
            begun = time.monotonic()
            declared = any(path.endswith(_DECLARATIONS) for _, path in changes)
            if declared:
                loaded = _loaded_again(loaded, project)
                files.use(loaded.config)
            if due or declared:
                rounds.reported.clear()
            changed = {Path(path).relative_to(files.root).as_posix() for _, path in changes}
            rounds.ingest(loaded, changed)
    finally:
        loaded.close()


def _watch_server(
    project: RemoteProject, kb_id: str | None, every: float | None, output: Output
) -> NoReturn:
    """Watch the files of a server in the same way, also after it was restarted."""
    from lorebind.remote.errors import ServerError  # imports httpx

    print_line(f"Watching the files of {project.url}; stop with Ctrl-C.", stderr=True)
    knowledge_bases(project, kb_id)  # reports a wrong id immediately
    is_lost = False
    rounds = _Rounds(kb_id, output)
    while True:
        try:
            for files in project.changes(every and every * 60):
                is_lost = False
                if not files:
                    rounds.reported.clear()
                rounds.ingest(project)
        except ServerError as error:
            if not error.may_pass:
                raise
            if not is_lost:
                print_line(f"lorebind: {error}; retrying until it answers", stderr=True)
            is_lost = True
        time.sleep(_PAUSE_SECONDS)


def _loaded_again(loaded: Project, path: str) -> Project:
    """Load the project again; if it is not valid, report that and return the current one."""
    try:
        config = load_config(path)
    except LorebindError as error:
        print_line(f"lorebind: {error}; the previous declarations stay in effect", stderr=True)
        return loaded
    loaded.close()  # before opening the other, which may need the same port
    try:
        return opened(config)
    except LorebindError as error:
        print_line(f"lorebind: {error}; the previous declarations stay in effect", stderr=True)
        return opened(loaded.config)


class _Rounds:
    """Ingests what is new since the last round.

    A failure that was reported is not new: reporting it may write a log in the watched folder,
    which would start the next round.
    """

    def __init__(self, kb_id: str | None, output: Output) -> None:
        self._kb_id, self._output = kb_id, output
        self.reported: dict[tuple[str, str | None], set[tuple[str, str]]] = {}
        """Failed documents and sources with their reasons, by knowledge base and workflow."""

    def ingest(self, loaded: AnyProject, changed: Collection[str] = ()) -> None:
        """Ingest the knowledge bases that have news; `changed` are paths in the project folder."""
        try:
            kbs = knowledge_bases(loaded, self._kb_id, quiet=True)
        except NotFoundError as error:  # it was renamed; the next change may bring it back
            print_line(f"lorebind: {error}", stderr=True)
            return
        for kb, _ in kbs:
            try:
                plan = kb.plan()
                if not self._has_news((kb.id, kb.workflow), plan, changed):
                    continue
                if self._output is Output.table:
                    if len(kbs) > 1:
                        print_heading(kb)
                    print_line(plan_line(plan))
                report = ingest_with_bars(kb, loaded.events, self._output, plan=plan, wait=True)
            except LorebindError as error:
                print_line(f"lorebind: {kb.id}: {error}", stderr=True)
            else:
                if self._output is not Output.table:
                    print_data(report, self._output)

    def _has_news(
        self, name: tuple[str, str | None], plan: IngestPlan, changed: Collection[str]
    ) -> bool:
        failed = {(failure.uri, failure.reason) for failure in plan.failures}
        failed |= {
            (source.source, source.reason) for source in plan.sources if source.status == "failed"
        }
        failed |= {
            (document.uri, document.reason)
            for source in plan.sources
            for document in source.unlisted
        }
        new = failed - self.reported.get(name, set())
        self.reported[name] = failed
        return bool(
            any(plan.documents[change] for change in ("added", "updated", "removed"))
            or plan.notices
            or new
            or any(uri in changed for uri, _ in failed)
        )
