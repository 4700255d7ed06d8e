"""`lorebind knowledge pack`, `unpack` and `rollback`: an index as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.ingesting import knowledge_bases, show_plan
from lorebind.cli.options import (
    HERE,
    IdArgument,
    InputsOption,
    Output,
    OutputOption,
    ProjectOption,
    WorkflowOption,
)
from lorebind.cli.printing import counted, print_data, print_report
from lorebind.cli.progress import progress_bars
from lorebind.cli.target import apply_to_target, open_target
from lorebind.cli.terminal import print_line
from lorebind_config.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.packing.unpack import UnpackReport


def pack(
    kb_id: IdArgument,
    file: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")
    ],
    workflow: WorkflowOption = None,
    project: ProjectOption = HERE,
    output: Annotated[
        Output, typer.Option("--format", help="The format of the result.")
    ] = Output.table,
) -> None:
    """Write a knowledge base with its vectors into one file, for `unpack`.

    No text is embedded, and the file has no secret. It can be read with `unzip`.
    """
    with open_target(project) as loaded:
        report = loaded.knowledge_base(kb_id, workflow=workflow).pack(file)
    if output is not Output.table:
        print_data(report, output)
        return
    print_line(
        f"{file}: {counted(report.documents, 'document')}, {counted(report.chunks, 'chunk')}, "
        f"{report.bytes / 1e6:.2f} MB, in {report.seconds:.1f} s"
    )


def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `pack` has written.")],
    kb_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Default: the id in the file.")
    ] = None,
    workflow: WorkflowOption = None,
    project: ProjectOption = HERE,
    output: OutputOption = Output.table,
) -> None:
    """Replace the index of a knowledge base by that of a file, or create the knowledge base.

    No text is embedded if the knowledge base has the embedder of the file. A declared knowledge
    base stays as it is declared. One that is not declared is written into lorebind.yaml, unless it
    needs trust: then declare it first.
    """
    from lorebind_knowledge.packing.archive import PackReader

    with PackReader(file) as pack_file:
        manifest = pack_file.manifest
    kb_id = kb_id or str(manifest.get("knowledge_base"))
    if workflow is None:
        _declare(kb_id, manifest, file, project, output)
    with open_target(project) as loaded, progress_bars(loaded.events):
        report = loaded.knowledge_base(kb_id, workflow=workflow).unpack(file)
    if output is not Output.table:
        print_data(report, output)
        return
    print_report(report)
    _print_rest(report)


def rollback(
    kb_id: IdArgument,
    to: Annotated[
        int | None,
        typer.Option("--to", metavar="NUMBER", help="Default: the newest before the current one."),
    ] = None,
    workflow: WorkflowOption = None,
    inputs: InputsOption = None,
    project: ProjectOption = HERE,
    output: OutputOption = Output.table,
) -> None:
    """Search an earlier index again, such as the one before the last reindex.

    `keep` of the knowledge base says how many there are, and `stats` lists them. Then print the
    plan of the next ingest, which updates the index that is searched now.
    """
    with open_target(project) as loaded:
        ((kb, values),) = knowledge_bases(loaded, kb_id, workflow, inputs)
        report = kb.rollback(to)
        if output is not Output.table:
            print_data(report, output)
            return
        print_line(
            f"{kb_id}: searches use index {report.index} again, with "
            f"{counted(report.documents, 'document')} and {counted(report.chunks, 'chunk')}; "
            f"index {report.index_before} stays"
        )
        print_line("the next ingest:")
        show_plan(kb, output, inputs=values)


def _print_rest(report: UnpackReport) -> None:
    if report.texts_embedded or report.cache_hits:
        cost = "" if report.cost is None else f", which cost {report.cost:.4f}"
        print_line(
            f"note: the vectors of the file are of {report.embedder_before}, so "
            f"{counted(report.texts_embedded, 'text')} of {report.tokens_embedded} tokens were "
            f"embedded{cost}"
        )
    for difference in report.differences:
        print_line(
            f"note: {difference.key} is {_in_words(difference.declared)} here, and "
            f"{_in_words(difference.packed)} in the file"
        )


def _in_words(value: Any) -> str:
    return "the default" if value is None else repr(value)


def _declare(
    kb_id: str, manifest: Mapping[str, Any], file: Path, project: str, output: Output
) -> None:
    """Write the declaration of a pack into the project, if it has no such knowledge base."""
    from lorebind.index_methods import declaration_to_add
    from lorebind_config.editing.yaml_text import as_yaml

    with open_target(project) as loaded:
        try:
            _ = loaded.knowledge_base(kb_id).info
        except NotFoundError:
            pass
        else:
            return
        there = loaded.export()
    resources = declaration_to_add(manifest.get("declaration"), kb_id, there, str(file))
    apply_to_target(project, as_yaml(resources), str(file), dry_run=False)
    if output is Output.table:
        print_line(f"declared {kb_id} as {file} has it")
