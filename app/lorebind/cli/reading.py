"""`lorebind knowledge find|fetch|fields`: exact words, lines and metadata, from the index."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

from lorebind.cli.documents import DocumentArgument
from lorebind.cli.inputs import filter_values
from lorebind.cli.options import (
    FiltersOption,
    IdArgument,
    Output,
    OutputOption,
    ProjectOption,
    WorkflowOption,
)
from lorebind.cli.printing import print_data, print_table
from lorebind.cli.target import open_read_only, open_target
from lorebind.cli.terminal import print_line, visible
from lorebind_config.errors import UsageError

_SHOWN = 5
"""Number of values in a row of the table; the other outputs have all 20."""


def find(
    kb_id: IdArgument,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="The exact words, as they stand on one line.")
    ],
    regex: Annotated[
        bool, typer.Option("--regex", help="The pattern is a regular expression (RE2).")
    ] = False,
    document: Annotated[
        str | None, typer.Option("--document", "-d", help="The uri of the only document to search.")
    ] = None,
    filters: FiltersOption = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1000, help="The maximum number of passages.")
    ] = 100,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Print the lines of documents that contain exact words, in any case of letters.

    Unlike `query`, it ranks nothing and returns every match. It reads the index alone.
    """
    with open_target(project) as loaded:
        kb = loaded.knowledge_base(kb_id, workflow=workflow)
        where = filter_values(filters or []) or None
        result = kb.find(pattern, regex=regex, document=document, filters=where, limit=limit)
    if output is not Output.table:
        print_data(result, output)
    else:
        for passage in result.passages:
            for line, text in passage.lines:
                print_line(f"{passage.uri}:{line}: {text}")
        if result.cut:
            print_line(f"note: there may be more: {result.cut}", stderr=True)
        if not result.passages:
            print_line(f"no line of {kb_id} matches the pattern")
    if not result.passages:
        raise typer.Exit(1)


def fetch(
    kb_id: IdArgument,
    document: DocumentArgument,
    lines: Annotated[
        str | None,
        typer.Option("--lines", "-l", metavar="FIRST-LAST", help="As 10-20, 10- or 10."),
    ] = None,
    filters: FiltersOption = None,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Print a document, or some of its lines, as the index has them. Its source is not read."""
    first, last = _range(lines) if lines is not None else (1, None)
    with open_target(project) as loaded:
        kb = loaded.knowledge_base(kb_id, workflow=workflow)
        where = filter_values(filters or []) or None
        result = kb.fetch(document, first_line=first, last_line=last, filters=where)
    if output is not Output.table:
        print_data(result, output)
        return
    for _, text in result.texts():
        print(visible(text))


def fields(
    kb_id: IdArgument,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """List the keys of the documents' metadata, for `--filter`, with their most frequent values."""
    with open_read_only(project) as loaded:
        fields = loaded.knowledge_base(kb_id, workflow=workflow).fields()
    if output is not Output.table:
        print_data({"fields": fields}, output)
        return
    rows = []
    for field in fields:
        values = ", ".join(
            f"{json.dumps(entry.value, ensure_ascii=False)} ({entry.count})"
            for entry in field.values[:_SHOWN]
        )
        more = ", …" if len(field.values) > _SHOWN else ""
        rows.append([field.key, ", ".join(field.types), field.count, values + more])
    print_table(["key", "types", "documents", "values"], rows)


def skipped(
    kb_id: IdArgument,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """List the files and folders that the last ingest found and did not read, and why."""
    with open_read_only(project) as loaded:
        items = loaded.knowledge_base(kb_id, workflow=workflow).skipped()
    if output is not Output.table:
        print_data({"skipped": items}, output)
        return
    print_table(
        ["uri", "reason", "setting that reads it"],
        ([item.uri, item.reason, item.setting] for item in items),
    )


def _range(lines: str) -> tuple[int, int | None]:
    """Return the first and the last line that `--lines` names; None means the end."""
    match = re.fullmatch(r"([1-9]\d{0,8})(-([1-9]\d{0,8})?)?", lines)
    if match is None:
        raise UsageError(f"--lines {lines!r} is not of the form 10-20, 10- or 10")
    first, is_range, last = match.groups()
    return int(first), int(last) if last else None if is_range else int(first)
