"""`lorebind knowledge documents|chunks|add|retry|delete|runs|stats`.

The commands that list and change the documents of an index.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.ingesting import knowledge_bases
from lorebind.cli.inputs import filter_values
from lorebind.cli.options import (
    FiltersOption,
    IdArgument,
    Output,
    OutputOption,
    ProjectOption,
    WorkflowOption,
)
from lorebind.cli.printing import (
    counted,
    print_chunks,
    print_data,
    print_failures,
    print_report,
    print_table,
    utc_time,
)
from lorebind.cli.target import open_read_only, open_target
from lorebind.cli.terminal import can_ask, print_line, says_yes
from lorebind.plain_data import as_data
from lorebind_config.errors import UsageError
from lorebind_knowledge.ingest.progress import progress_line
from lorebind_knowledge.loaders.textless import parts_in_words

if TYPE_CHECKING:
    from lorebind.cli.target import AnyKnowledgeBase
    from lorebind_knowledge.catalog.runs import RunInfo
    from lorebind_knowledge.documents.listing import DocumentInfo
    from lorebind_knowledge.ingest.report import IngestReport

_COLUMN_NAMES = {"textless_parts": "without text", "updated_at": "updated"}
"""Names of columns, if they differ from the fields."""
_NAMED = 5
"""Number of documents that a note about several names."""
_METADATA_WIDTH = 100
"""Number of characters of metadata in a row."""

DocumentArgument = Annotated[
    str, typer.Argument(metavar="DOCUMENT", help="Its uri, or its id as printed by `documents`.")
]


def documents(
    kb_id: IdArgument,
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only documents that are ready, pending or failed."),
    ] = None,
    q: Annotated[
        str, typer.Option("-q", help="A part of the uri or title, in any case of letters.")
    ] = "",
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Only documents of this format, such as `markdown`."),
    ] = None,
    filters: FiltersOption = None,
    long: Annotated[
        bool, typer.Option("--long", help="Show format, size, times and metadata too.")
    ] = False,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """List the documents of a knowledge base, including those that failed.

    With --filter, only documents are listed of which at least one passage passes.
    """
    where = filter_values(filters or []) or None
    with open_read_only(project) as loaded:
        kb = loaded.knowledge_base(kb_id, workflow=workflow)
        documents = kb.documents(state=state, q=q, format=format_, filters=where)
    if output is not Output.table:
        print_data({"documents": documents}, output)
        return
    columns = [
        *("uri", "title", "state", "excluded", "chunks", "textless_parts"),
        *(("format", "size", "modified", "updated_at", "metadata") if long else ()),
        *("origin", "id"),
    ]
    for rare in ("excluded", "textless_parts"):
        if not any(getattr(info, rare) for info in documents):
            columns.remove(rare)
    names = [_COLUMN_NAMES.get(column, column) for column in columns]
    rows = ([_cell(info, column) for column in columns] for info in documents)
    print_table(names, rows)
    print_failures([info for info in documents if info.reason])


def _cell(info: DocumentInfo, column: str) -> object:
    match column:
        case "excluded":
            return "yes" * info.excluded
        case "textless_parts":
            return parts_in_words(info.textless_parts)
        case "updated_at":
            return utc_time(info.updated_at) if info.updated_at else ""
        case "metadata":
            pairs = (
                f"{key}={value if isinstance(value, str) else json.dumps(value)}"
                for key, value in info.metadata.items()
            )
            text = " ".join(pairs)
            return text if len(text) <= _METADATA_WIDTH else f"{text[: _METADATA_WIDTH - 1]}…"
    return getattr(info, column)


def exclude(
    kb_id: IdArgument,
    document: DocumentArgument,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Take a document out of searches without deleting it, until it is included again."""
    with open_target(project) as loaded:
        info = loaded.knowledge_base(kb_id, workflow=workflow).exclude_document(document)
    _print_changed(info, f"searches of {kb_id} do not find {info.uri} any more", output)


def include(
    kb_id: IdArgument,
    document: DocumentArgument,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Let searches find a document again that was excluded."""
    with open_target(project) as loaded:
        info = loaded.knowledge_base(kb_id, workflow=workflow).include_document(document)
    _print_changed(info, f"searches of {kb_id} can find {info.uri}", output)


def _print_changed(info: DocumentInfo, line: str, output: Output) -> None:
    if output is not Output.table:
        print_data(info, output)
    else:
        print_line(line)


def chunks(
    kb_id: IdArgument,
    document: DocumentArgument,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Print the chunks of a document in order."""
    with open_read_only(project) as loaded:
        chunks = loaded.knowledge_base(kb_id, workflow=workflow).chunks(document)
    if output is not Output.table:
        print_data({"chunks": chunks}, output)
        return
    print_chunks(chunks)


def add(
    kb_id: IdArgument,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The files to add.")],
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Add files to a knowledge base, next to the documents of its sources.

    The files are copied: they stay until you delete them, even if the original files are removed.
    The path as you write it is the id: a file that was added with the same path is replaced.
    """
    # The commands that read declarations are in the same group, and save .06 s.
    from lorebind_knowledge.documents.changing import read_document

    documents = []
    for file in files:
        try:
            name = Path(os.path.normpath(file)).as_posix()
            documents.append({"id": name, "data": file.read_bytes()})
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
        read_document(documents[-1], str(file))
    with open_target(project) as loaded:
        report = loaded.knowledge_base(kb_id, workflow=workflow).add_documents(documents)
    _print_end(report, output)


def retry(
    kb_id: IdArgument,
    document: DocumentArgument,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Read one document again, such as one that failed, and change no other."""
    with open_target(project) as loaded:
        report = loaded.knowledge_base(kb_id, workflow=workflow).retry_document(document)
    _print_end(report, output)


def _print_end(report: IngestReport, output: Output) -> None:
    """Print a report; the command fails if a document did."""
    if output is not Output.table:
        print_data(report, output)
    else:
        print_report(report)
    if report.status != "completed":
        raise typer.Exit(1)


def delete(
    kb_id: IdArgument,
    document: Annotated[
        str | None, typer.Argument(metavar="[DOCUMENT]", help="Default: the whole index.")
    ] = None,
    filters: FiltersOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --filter: only list the documents.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm to delete the whole index, or what passes.")
    ] = False,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Delete an added document, those that pass a filter, or the whole index.

    With --filter, documents are deleted whose passages all pass. For documents of sources, the
    command says what excludes them. With --yes and neither, the whole index is deleted with the
    added documents; the declaration stays, and the next ingest builds a new index.
    """
    if (filters and document is not None) or (dry_run and not filters):
        raise UsageError("--filter selects documents, and --dry-run needs it; name no document")
    with open_target(project) as loaded:
        kb = loaded.knowledge_base(kb_id, workflow=workflow)
        if filters:
            _delete_by_filter(kb, filter_values(filters), output, dry_run=dry_run, yes=yes)
            return
        if document is not None:
            gone = [kb.delete_document(document)]
        else:
            gone = kb.documents()
            added = sum(info.origin == "added" for info in gone)
            if not yes:
                raise UsageError(
                    f"this deletes the index of {kb_id!r}: {counted(len(gone), 'document')}, "
                    f"{added} of them added by hand; to confirm, add --yes"
                )
            kb.delete()
    if output is not Output.table:
        print_data({"deleted": gone}, output)
    else:
        print_line(f"deleted {counted(len(gone), 'document')} of {kb_id}")


def _delete_by_filter(
    kb: AnyKnowledgeBase, filters: dict[str, Any], output: Output, *, dry_run: bool, yes: bool
) -> None:
    deletion = kb.delete_documents(filters, dry_run=True)
    count = counted(len(deletion.documents), "document")
    if not dry_run and deletion.documents:
        if not yes and not can_ask():
            raise UsageError(
                f"this deletes {count} of {kb.id!r}; list them with --dry-run, and confirm with "
                "--yes"
            )
        if not yes and not says_yes(f"Delete {count} of {kb.id}?"):
            raise UsageError("nothing was deleted")
        deletion = kb.delete_documents(filters)
    if output is not Output.table:
        print_data(deletion, output)
        return
    if dry_run and deletion.documents:
        rows = ((info.uri, info.title, info.id) for info in deletion.documents)
        print_table(("uri", "title", "id"), rows)
    print_line(f"{'would delete' if dry_run else 'deleted'} {count} of {kb.id}")
    by_source = defaultdict(list)
    for document in deletion.of_sources:
        by_source[document.excluded_by].append(document.uri)
    for excluded_by, uris in by_source.items():
        more = len(uris) - _NAMED
        names = ", ".join(uris[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        is_one = len(uris) == 1
        which = f"{names} is of a source" if is_one else f"{names} are of a source; for each"
        print_line(f"note: {which}: {excluded_by}")
    for info in deletion.partly:
        print_line(f"note: {info.uri} was not deleted, because only some of its passages pass")


def runs(
    kb_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Default: the last run of each.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The number of runs.")] = 20,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """List the ingests of a knowledge base, the newest first, and how far a running one is."""
    with open_read_only(project) as loaded:
        if kb_id is not None:
            kb = loaded.knowledge_base(kb_id, workflow=workflow)
            runs = [(kb, run) for run in kb.runs(limit=limit)]
        else:
            selected = [kb for kb, _ in knowledge_bases(loaded, None, workflow, quiet=True)]
            runs = [(kb, run) for kb in selected for run in kb.runs(limit=1)]
    if output is not Output.table:
        listed = [{"kb_id": kb.id, "workflow": kb.workflow, **as_data(run)} for kb, run in runs]
        print_data({"runs": listed}, output)
        return
    rows = (
        (kb.id, run.run_id, run.status, utc_time(run.started_at), _seconds(run), _outcome(run))
        for kb, run in runs
    )
    names = ("knowledge base", "id", "status", "started", "seconds", "documents")
    print_table(names, rows)


def _seconds(run: RunInfo) -> str:
    return "" if run.ended_at is None else f"{run.ended_at - run.started_at:.1f}"


def _outcome(run: RunInfo) -> str:
    """Return the error of a run, its counts of documents, or else how far it is."""
    if run.error:
        return run.error
    if run.report is not None:
        counts = run.report["documents"].items()
        return ", ".join(f"{count} {name}" for name, count in counts if count) or "none"
    return progress_line(run.progress) if run.progress is not None else ""


def stats(
    kb_id: IdArgument,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Show statistics about the index of a knowledge base."""
    with open_read_only(project) as loaded:
        stats = loaded.knowledge_base(kb_id, workflow=workflow).stats()
    if output is not Output.table:
        print_data(stats, output)
        return
    data = as_data(stats)
    data |= {f"documents {state}": count for state, count in data.pop("documents").items()}
    languages = data["languages"].items()
    data["languages"] = ", ".join(f"{name} {count}" for name, count in languages)
    if not stats.embedder:  # there is no index
        del data["embedder"], data["dimension"], data["languages"]
    earlier = data.pop("earlier")
    if earlier:
        data["earlier indexes"] = ", ".join(map(str, earlier))
    last_run, last_good_run = (data.pop(name) or {} for name in ("last_run", "last_good_run"))
    data["last ingest"] = last_run.get("status", "never")
    if last_good_run and last_good_run["run_id"] != last_run["run_id"]:
        data["last good ingest"] = utc_time(last_good_run["ended_at"])
    print_table(("", kb_id), ((name, value) for name, value in data.items() if name != "kb_id"))
