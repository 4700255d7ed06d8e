"""`lorebind knowledge watch`: ingest whenever a file changes."""

from __future__ import annotations

import time
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.options import Output, OutputOption, ProjectOption
from lorebind_knowledge.errors import LorebindError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind.project import Project
    from lorebind_knowledge.ingest.report import IngestPlan

_DECLARATIONS = (".yaml", ".yml", ".env")
_QUIET_MILLISECONDS = 300
"""Time without a change before the ingest: editors write a file in several steps."""


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

    Changes to lorebind.yaml or .env also take effect. A failing ingest is reported, and the command
    waits for the next change.
    """
    from lorebind.cli.given import refuse_server
    from lorebind.cli.ingesting import knowledge_bases
    from lorebind.cli.opening import open_project
    from lorebind.cli.printing import print_line
    from lorebind_knowledge.extras import import_extra

    refuse_server("`watch` watches the files of this machine, which a server does not have")
    watchfiles = import_extra("watchfiles", extra="watch", purpose="lorebind knowledge watch")
    loaded = open_project(project)
    try:
        root = Path(loaded.config.root).resolve()
        print_line(f"Watching {root}; stop with Ctrl-C.", stderr=True)
        begun = float("-inf")
        named = _named_hidden(loaded)
        knowledge_bases(loaded, kb_id)  # reports a wrong id immediately
        # Watching starts before the first ingest, so that no change is missed.
        for changes in watchfiles.watch(
            root,
            watch_filter=_filter(root, named),
            debounce=10 * _QUIET_MILLISECONDS,
            step=_QUIET_MILLISECONDS,
            rust_timeout=500,
            yield_on_timeout=True,
        ):
            due = begun == float("-inf") or (every and time.monotonic() - begun > every * 60)
            if not (changes or due):
                continue
            begun = time.monotonic()
            if any(path.endswith(_DECLARATIONS) for _, path in changes):
                loaded = _loaded_again(loaded, project)
                named[:] = _named_hidden(loaded)
            _ingest(loaded, kb_id, output)
    finally:
        loaded.close()


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


def _ingest(loaded: Project, kb_id: str | None, output: Output) -> None:
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
        changed or bool(plan.notices) or any(source.status == "failed" for source in plan.sources)
    )


def _filter(root: Path, named: list[str]) -> Callable[[Any, str], bool]:
    """Return a filter for changes; it drops files of tools, and hidden files that are not named."""
    from watchfiles import DefaultFilter

    from lorebind_knowledge.data_folder import DATA_FOLDER

    others = DefaultFilter()

    def matters(change: Any, path: str) -> bool:
        parts = Path(path).relative_to(root).parts
        hidden = [part for part in parts if part.startswith(".") and part != ".gitignore"]
        is_named = all(any(fnmatch(part, one) for one in named) for part in hidden)
        if parts != (".env",) and (DATA_FOLDER in hidden or not is_named):
            return False
        return others(change, path)

    return matters


def _named_hidden(loaded: Project) -> list[str]:
    """Return hidden names in the patterns of sources; a template may stand for any name."""
    parts = [
        part
        for kb, _ in loaded.config.every_knowledge_base()
        for source in kb.sources
        for pattern in getattr(source, "patterns", ())
        for part in (".*" if "{{" in pattern else pattern).split("/")
    ]
    return [part for part in parts if part.startswith(".")]
