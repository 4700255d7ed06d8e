"""Show an ingest on the command line: the plan, the progress bars and the summary."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorebind.cli.inputs import declared_inputs, input_values
from lorebind.cli.options import Output
from lorebind.cli.printing import (
    counted,
    plan_line,
    print_report,
    print_skipped,
    print_source_reports,
    print_without_text,
    tokens_line,
    without_text,
)
from lorebind.cli.progress import progress_bars
from lorebind.cli.terminal import print_line
from lorebind.plain_data import as_data
from lorebind_config.errors import (
    IngestRunningError,
    LorebindError,
    ReadOnlyError,
    SourceError,
    UsageError,
)
from lorebind_knowledge.events import Event, Extension
from lorebind_knowledge.ingest.progress import SECONDS
from lorebind_knowledge.plumbing.lanes import repeated, usable_processors

if TYPE_CHECKING:
    from lorebind.cli.target import AnyKnowledgeBase, AnyProject
    from lorebind.knowledge_base import KnowledgeBase
    from lorebind.project import Project
    from lorebind_knowledge.events import Events
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport

_TEXTS_A_SECOND, _LONG = 20, 120
"""The texts that a processor embeds in a second with the local models, and the time in seconds from
which a faster way is worth a note."""


def knowledge_bases(
    project: AnyProject,
    kb_id: str | None,
    workflow: str | None = None,
    inputs: list[str] | None = None,
    *,
    quiet: bool = False,
) -> list[tuple[AnyKnowledgeBase, dict[str, Any] | None]]:
    """Return the knowledge bases of a command, each with the inputs of its workflow.

    Without an id, these are all knowledge bases of the workflow, or else of the project and its
    workflows. Those that others fill are omitted. Those that need an input are omitted too, and a
    message says so, except with `quiet`.

    Raises:
        NotFoundError: no such knowledge base or workflow.
        UsageError: the id is empty, there are inputs without their workflow, or the workflow
            declares no knowledge base to ingest.
    """
    if kb_id is not None and not kb_id.strip():
        raise UsageError(
            "the id of the knowledge base is empty; write an id, or omit it for every knowledge "
            "base"
        )
    values = None
    declared = {}
    if workflow is not None and (inputs or not kb_id):
        declared = declared_inputs(project, workflow)  # reports an unknown workflow
    if inputs:
        if workflow is None:
            raise UsageError("--input belongs to a workflow; name it with --workflow")
        values = input_values(inputs, declared)
    if kb_id:
        chosen = project.knowledge_base(kb_id, workflow=workflow)
        _ = chosen.info  # reports an unknown id, also on a server
        return [(chosen, values)]
    selected: list[tuple[AnyKnowledgeBase, dict[str, Any] | None]] = []
    every = [kb for kb in project.knowledge_bases() if not kb.filled_by_others]
    if workflow is not None:
        every = [kb for kb in every if kb.workflow == workflow]
        if not every:
            raise UsageError(f"workflow {workflow!r} declares no knowledge base to ingest")
    for kb in every:
        if missing := [name for name in kb.needs_inputs if name not in (values or {})]:
            options = "".join(f" --input {name}=…" for name in missing)
            if not quiet:
                print_line(
                    f"note: {kb.id} of workflow {kb.workflow} is skipped, because its sources "
                    f"need an input; ingest it with: lorebind knowledge ingest {kb.id} "
                    f"--workflow {kb.workflow}{options}",
                    stderr=True,
                )
            continue
        selected.append((project.knowledge_base(kb.id, workflow=kb.workflow), values))
    return selected


def print_heading(kb: AnyKnowledgeBase) -> None:
    """Print the name of a knowledge base above its plan and report."""
    print_line(f"{kb.id}:" if kb.workflow is None else f"{kb.id} of workflow {kb.workflow}:")


def failed_entry(result: IngestPlan | IngestReport, error: Exception) -> dict[str, Any]:
    """Return the data of an empty plan or report, with the error that prevented it."""
    return {**as_data(result), "status": "failed", "reason": str(error)}


def show_plan(
    kb: AnyKnowledgeBase,
    output: Output,
    *,
    inputs: Mapping[str, Any] | None = None,
    strategy: str = "upsert",
    tokens: bool = False,
) -> IngestPlan:
    """Return the plan of an ingest, and print it if the output is `table`.

    Tokens are printed if the caller asks for them, or if they have a price.
    """
    plan = kb.plan(inputs=inputs, strategy=strategy)
    if output is Output.table:
        print_line(plan_line(plan))
        if tokens or plan.cost is not None:
            print_line(tokens_line(plan))
        for notice in plan.notices:
            print_line(f"note: {notice}")
    return plan


def ingest_with_bars(
    kb: AnyKnowledgeBase,
    events: Events,
    output: Output,
    *,
    plan: IngestPlan | None = None,
    inputs: Mapping[str, Any] | None = None,
    strategy: str = "upsert",
    only_failed: bool = False,
    allow_mass_delete: bool = False,
    wait: bool = False,
    brief: bool = False,
) -> IngestReport:
    """Ingest with progress bars, and print the summary if the output is `table`.

    Without a plan, the number of documents is printed as soon as they are listed. With `brief`, an
    ingest without changes prints only documents without text, skipped documents and failures.
    """
    ingest = partial(
        kb.ingest,
        inputs=inputs,
        strategy=strategy,
        only_failed=only_failed,
        allow_mass_delete=allow_mass_delete,
        plan=plan,
    )
    try:
        with progress_bars(events), _count_printed(events, plan, output):
            report = ingest()
    except IngestRunningError:
        if not wait:
            raise
        print_line(f"Waiting for another ingest of {kb.id} to end.", stderr=True)
        with progress_bars(events) as bars, _watching(kb, bars):
            report = ingest(wait=True)
    if output is Output.table and brief and _changed_nothing(report):
        print_without_text(report)
        print_source_reports(report.sources)
    elif output is Output.table:
        print_report(report)
    return report


@contextmanager
def _watching(kb: AnyKnowledgeBase, bars: Extension) -> Iterator[None]:
    """Show within the block how far the ingest of a knowledge base is, in any process."""

    def watch() -> None:
        with suppress(LorebindError):  # the ingest that waits reports it
            for run in kb.runs(limit=1):
                if run.status == "running" and run.progress is not None:
                    bars.ingest_progressed(Event(kb.id, run.run_id, run.progress))

    with repeated(SECONDS, watch, "lorebind-progress"):
        yield


def _changed_nothing(report: IngestReport) -> bool:
    changes = sum(count for name, count in report.documents.items() if name != "unchanged")
    chunks = report.chunks["added"] + report.chunks["removed"]
    return report.status == "completed" and not (changes or chunks or report.notices)


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


def reindex_with_bars(
    kb: AnyKnowledgeBase,
    events: Events,
    output: Output,
    *,
    inputs: Mapping[str, Any] | None = None,
) -> IngestReport:
    """Reindex with progress bars, and print the summary if the output is `table`."""
    with progress_bars(events), _count_printed(events, None, output):
        report = kb.reindex(inputs=inputs)
    if output is Output.table:
        print_report(report)
    return report


class _Count(Extension):
    """Prints the number of documents as soon as they are listed."""

    def ingest_listed(self, event: Event) -> None:
        print_line(f"Plan: {counted(event.data['documents'], 'document')}")


@contextmanager
def _count_printed(events: Events, plan: IngestPlan | None, output: Output) -> Iterator[None]:
    """Print the number of documents within the block, unless a plan has told more already."""
    if plan is not None or output is not Output.table:
        yield
        return
    count = _Count()
    events.subscribe(count)
    try:
        yield
    finally:
        events.unsubscribe(count)
