"""Show an ingest on the command line: the plan, the progress bars and the summary."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind.cli.inputs import input_values
from lorebind.cli.options import Output
from lorebind.cli.printing import (
    plan_line,
    print_line,
    print_report,
    print_source_reports,
    print_without_text,
    tokens_line,
)
from lorebind.cli.progress import progress_bars
from lorebind_knowledge.errors import IngestRunningError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind.cli.any_project import AnyProject
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport


def knowledge_bases(
    project: AnyProject,
    kb_id: str | None,
    workflow: str | None = None,
    inputs: list[str] | None = None,
) -> list[tuple[str, str | None, dict[str, Any] | None]]:
    """Return the knowledge bases of a command, each with its workflow and the workflow's inputs.

    Without an id, these are all knowledge bases except those that others fill.

    Raises:
        NotFoundError: no such knowledge base.
        UsageError: inputs without their workflow.
    """
    values = None
    if inputs:
        if workflow is None:
            raise UsageError("--input belongs to a workflow; name it with --workflow")
        values = input_values(inputs, project.workflow_inputs(workflow))
    if kb_id:
        project.knowledge_base(kb_id, workflow=workflow)
        return [(kb_id, workflow, values)]
    return [
        (kb.id, kb.workflow, values)
        for kb in project.knowledge_bases()
        if not kb.filled_by_others and (not inputs or kb.workflow == workflow)
    ]


def show_plan(
    project: AnyProject,
    kb_id: str,
    output: Output,
    *,
    workflow: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    strategy: str = "upsert",
    tokens: bool = False,
) -> IngestPlan:
    """Return the plan of an ingest, and print it if the output is `table`.

    Tokens are printed if the caller asks for them, or if they have a price.
    """
    plan = project.plan(kb_id, workflow=workflow, inputs=inputs, strategy=strategy)
    if output is Output.table:
        print_line(plan_line(plan))
        if tokens or plan.cost is not None:
            print_line(tokens_line(plan))
        for notice in plan.notices:
            print_line(f"note: {notice}")
    return plan


def ingest_with_bars(
    project: AnyProject,
    kb_id: str,
    plan: IngestPlan,
    output: Output,
    *,
    workflow: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    strategy: str = "upsert",
    only_failed: bool = False,
    allow_mass_delete: bool = False,
    wait: bool = False,
    brief: bool = False,
) -> IngestReport:
    """Ingest with progress bars, and print the summary if the output is `table`.

    With `brief`, an ingest without changes prints only documents without text, skipped
    documents and failures.
    """
    ingest = partial(
        project.ingest,
        kb_id,
        workflow=workflow,
        inputs=inputs,
        strategy=strategy,
        only_failed=only_failed,
        allow_mass_delete=allow_mass_delete,
        plan=plan,
    )
    try:
        with progress_bars(project.events, plan):
            report = ingest()
    except IngestRunningError:
        if not wait:
            raise
        print_line(f"Waiting for another ingest of {kb_id} to end.", stderr=True)
        report = ingest(wait=True)
    if output is Output.table and brief and _changed_nothing(report):
        print_without_text(report)
        print_source_reports(report.sources)
    elif output is Output.table:
        print_report(report)
    return report


def _changed_nothing(report: IngestReport) -> bool:
    changes = sum(count for name, count in report.documents.items() if name != "unchanged")
    chunks = report.chunks["added"] + report.chunks["removed"]
    return report.status == "completed" and not (changes or chunks or report.notices)


def reindex_with_bars(
    project: AnyProject,
    kb_id: str,
    plan: IngestPlan,
    output: Output,
    *,
    workflow: str | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> IngestReport:
    """Reindex with progress bars, and print the summary if the output is `table`."""
    with progress_bars(project.events, plan):
        report = project.reindex(kb_id, workflow=workflow, inputs=inputs, plan=plan)
    if output is Output.table:
        print_report(report)
    return report
