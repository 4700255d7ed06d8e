"""`lorebind knowledge`: list, get, export, apply, ingest, reindex, plan, query."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli import documents, reading, whole_index
from lorebind.cli.ingesting import (
    failed_entry,
    ingest_with_bars,
    knowledge_bases,
    print_heading,
    reindex_with_bars,
    show_plan,
)
from lorebind.cli.options import (
    IdArgument,
    InputsOption,
    Output,
    OutputOption,
    ProjectOption,
    Strategy,
    WorkflowOption,
    command_group,
)
from lorebind.cli.printing import (
    counted,
    print_data,
    print_failures,
    print_reprocessed,
    print_source_reports,
    print_table,
    print_without_text,
)
from lorebind.cli.querying import query
from lorebind.cli.target import apply_to_target, open_read_only, open_target, target_declarations
from lorebind.cli.terminal import print_line
from lorebind.cli.watch import watch
from lorebind_config.errors import LorebindError, UsageError
from lorebind_knowledge.ingest.report import IngestPlan, IngestReport

if TYPE_CHECKING:
    from lorebind.cli.target import AnyProject
    from lorebind.declaration_methods import KnowledgeBaseInfo
    from lorebind_knowledge.documents.listing import KnowledgeStats

app = command_group("List, exchange, ingest and query knowledge bases.")
for command in (
    documents.documents,
    documents.chunks,
    reading.find,
    reading.fetch,
    reading.fields,
    reading.skipped,
    documents.add,
    documents.retry,
    documents.delete,
    documents.exclude,
    documents.include,
    documents.runs,
    documents.stats,
    whole_index.pack,
    whole_index.unpack,
    whole_index.rollback,
    watch,
    query,
):
    app.command()(command)

StrategyOption = Annotated[
    Strategy,
    typer.Option(help="upsert: change the index; replace: build a new index, then swap it in."),
]


class _Indexes:
    """The statistics of a project's indexes, or the reason why an index cannot be read."""

    def __init__(self, project: AnyProject) -> None:
        self._project = project
        self._errors: dict[str, str] = {}
        """Errors by vector database, so that a database that does not answer is tried only once."""

    def stats(self, kb: KnowledgeBaseInfo) -> tuple[KnowledgeStats | None, str | None]:
        """Return the statistics or else an error; neither for a knowledge base that others fill."""
        if kb.filled_by_others:
            return None, None
        if kb.vector_db not in self._errors:
            try:
                opened = self._project.knowledge_base(kb.id, workflow=kb.workflow)
                return opened.stats(), None
            except LorebindError as error:
                self._errors[kb.vector_db] = str(error)
        return None, self._errors[kb.vector_db]


@app.command("list")
def list_(project: ProjectOption = ".", output: OutputOption = Output.table) -> None:
    """List the knowledge bases of the project with statistics about their indexes."""
    with open_read_only(project) as loaded:
        indexes = _Indexes(loaded)
        rows = [(kb, *indexes.stats(kb)) for kb in loaded.knowledge_bases()]
    if output is not Output.table:
        data = [
            {
                "id": kb.id,
                "workflow": kb.workflow,
                "description": kb.description,
                "stats": stats,
                "stats_error": error,
            }
            for kb, stats, error in rows
        ]
        print_data({"knowledge_bases": data}, output)
        return
    print_table(
        ("id", "workflow", "documents", "chunks", "last ingest", "description"),
        (
            (
                kb.id,
                kb.workflow or "",
                *_ingested(stats, error),
                " ".join(kb.description.split()),
            )
            for kb, stats, error in rows
        ),
    )
    unread: dict[str, list[str]] = {}
    for kb, _, error in rows:
        if error is not None:
            unread.setdefault(error, []).append(kb.id)
    for error, names in unread.items():
        print_line(f"lorebind: {', '.join(names)}: {error}", stderr=True)


def _ingested(stats: KnowledgeStats | None, error: str | None) -> tuple[object, object, str]:
    """Return the documents, the chunks and the last ingest as cells of the table."""
    if stats is None:
        return "", "", "by others" if error is None else "unknown"
    last = (stats.last_run or {}).get("status", "never")
    return sum(stats.documents.values()), stats.chunks, last


@app.command()
def get(
    kb_id: IdArgument,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Show one knowledge base: its declaration and statistics about its index.

    You can pass the YAML or JSON output to `apply`, which reads only `knowledge_base` from it.
    """
    with open_read_only(project) as loaded:
        info = loaded.knowledge_base(kb_id, workflow=workflow).info
        stats, error = _Indexes(loaded).stats(info)
    data: dict[str, Any] = {
        "workflow": info.workflow,
        "knowledge_base": info.knowledge_base,
        "with_defaults": info.with_defaults,
        "stats": stats,
        "stats_error": error,
    }
    print_data(data, Output.yaml if output is Output.table else output)


@app.command()
def export(
    kb_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Default: everything.")
    ] = None,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.yaml,
) -> None:
    """Print embedders, vector databases and knowledge bases as a file for `apply`."""
    with target_declarations(project) as loaded:
        data = loaded.export(kb_id, workflow=workflow)
    print_data(data, Output.yaml if output is Output.table else output)


@app.command()
def apply(
    file: Annotated[
        Path,
        typer.Option("--file", "-f", help="YAML from `export` or `get`; - reads standard input."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the differences without writing them.")
    ] = False,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Write resources into lorebind.yaml: replace those with the same id, and add the others.

    Knowledge bases of a workflow are written into the workflow's own file. The rest of the file
    stays as it is; comments within replaced resources are lost.
    """
    if file == Path("-") and sys.stdin is None:
        raise UsageError("standard input is closed; name a file, or pipe one in")
    try:
        text = sys.stdin.read() if file == Path("-") else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', error)}") from error
    shown_as = "<stdin>" if file == Path("-") else str(file)
    applied = apply_to_target(project, text, shown_as, dry_run=dry_run)
    if output is not Output.table:
        print_data(applied, output)
        return
    if dry_run:
        print(applied.diff, end="")
    print_table(
        ("resource", "id", "would be" if dry_run else "was"),
        ((change.section, change.id, change.action) for change in applied.changes),
    )


@app.command()
def ingest(
    kb_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Default: every knowledge base.")
    ] = None,
    strategy: StrategyOption = "upsert",
    only_failed: Annotated[
        bool,
        typer.Option("--only-failed", help="Only documents that failed or were interrupted."),
    ] = False,
    allow_mass_delete: Annotated[
        bool,
        typer.Option(
            "--allow-mass-delete", help="Allow to remove more than half of the documents."
        ),
    ] = False,
    workflow: WorkflowOption = None,
    inputs: InputsOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Update the index to the current content of the sources. Only changed content is embedded.

    Without an ID, a knowledge base that fails does not stop the others.
    """
    reports: list[IngestReport | dict[str, Any]] = []
    failed: list[str] = []
    with open_target(project) as loaded:
        selected = knowledge_bases(loaded, kb_id, workflow, inputs)
        for kb, values in selected:
            if len(selected) > 1 and output is Output.table:
                print_heading(kb)
            try:
                report = ingest_with_bars(
                    kb,
                    loaded.events,
                    output,
                    inputs=values,
                    strategy=strategy,
                    only_failed=only_failed,
                    allow_mass_delete=allow_mass_delete,
                )
            except LorebindError as error:
                if kb_id:
                    raise
                print_line(f"lorebind: {kb.id}: {error}", stderr=True)
                failed.append(kb.id)
                reports.append(failed_entry(IngestReport(kb.id, strategy), error))
                continue
            reports.append(report)
            if report.status != "completed":
                failed.append(kb.id)
    if output is not Output.table:
        print_data(reports[0] if kb_id else reports, output)
    elif not kb_id and failed:
        names = ", ".join(failed)
        tried = counted(len(reports), "knowledge base")
        print_line(f"{tried}, {len(failed)} with failures: {names}")
    if failed:
        raise typer.Exit(1)


@app.command()
def reindex(
    kb_id: IdArgument,
    workflow: WorkflowOption = None,
    inputs: InputsOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Rebuild the index in the background, then swap it in.

    Texts in the embedding cache are not embedded again.
    """
    with open_target(project) as loaded:
        ((kb, values),) = knowledge_bases(loaded, kb_id, workflow, inputs)
        report = reindex_with_bars(kb, loaded.events, output, inputs=values)
    if output is not Output.table:
        print_data(report, output)
    if report.status != "completed":
        raise typer.Exit(1)


@app.command()
def purge(
    yes: Annotated[bool, typer.Option("--yes", help="Remove the data; default: list it.")] = False,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Remove the data of knowledge bases that the project no longer declares."""
    with open_target(project) as loaded:
        orphans = loaded.purge(dry_run=not yes)
    if output is not Output.table:
        print_data({"removed" if yes else "undeclared": orphans}, output)
    elif not orphans:
        print_line("no data is left of knowledge bases that are no longer declared")
    else:
        print_table(
            ("id", "vector database", "tenant", "scope", "documents", "chunks"),
            (
                (
                    orphan.kb_id,
                    orphan.vector_db,
                    orphan.tenant,
                    orphan.scope,
                    orphan.documents,
                    orphan.chunks,
                )
                for orphan in orphans
            ),
        )
        print_line("removed" if yes else "nothing was removed; remove it with --yes")


@app.command()
def plan(
    kb_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Default: every knowledge base.")
    ] = None,
    strategy: StrategyOption = "upsert",
    workflow: WorkflowOption = None,
    inputs: InputsOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Show what an ingest would do now, without changing or embedding anything.

    Without an ID, a knowledge base that fails does not stop the others.
    """
    failed = False
    with open_target(project) as loaded:
        plans: list[IngestPlan | dict[str, Any]] = []
        for kb, values in knowledge_bases(loaded, kb_id, workflow, inputs):
            if output is Output.table and kb_id is None:
                print_heading(kb)
            try:
                plan = show_plan(kb, output, inputs=values, strategy=strategy, tokens=True)
            except LorebindError as error:
                if kb_id:
                    raise
                print_line(f"lorebind: {kb.id}: {error}", stderr=True)
                failed = True
                plans.append(failed_entry(IngestPlan(kb.id), error))
                continue
            plan.read = None  # frees the fetched documents, because no ingest follows
            plans.append(plan)
            if output is not Output.table:
                continue
            print_reprocessed(plan)
            print_without_text(plan)
            print_source_reports(plan.sources)
            print_failures(plan.failures, "unreadable")
    if output is not Output.table:
        print_data(plans[0] if kb_id else plans, output)
    if failed:
        raise typer.Exit(1)
