"""`lorebind query`: search one knowledge base, or several together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.bindings import print_binding
from lorebind.cli.inputs import filter_values
from lorebind.cli.options import FiltersOption, Output, OutputOption, ProjectOption
from lorebind.cli.printing import print_data, print_matches, print_table
from lorebind.cli.target import open_target
from lorebind.cli.terminal import print_line
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from lorebind.cli.target import AnyProject
    from lorebind_bindings import ResolvedBinding
    from lorebind_knowledge.records import MatchingTerms, SearchPath


def query(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID... QUESTION",
            help="The knowledge bases, and then the text to search for. Without an ID: what is "
            "bound at the workflow, task or agent, else by the project, else all.",
        ),
    ] = None,
    question: Annotated[
        str | None, typer.Option("--query", "-q", help="The question, as an option.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="The maximum number of passages, 1 to 50.")
    ] = None,
    min_score: Annotated[
        float | None,
        typer.Option("--min-score", help="Omit passages with a lower relevance, 0 to 1."),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option("--strategy", help="The retrieval strategy.")
    ] = None,
    filters: FiltersOption = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show all scores, matching terms and settings in effect."),
    ] = False,
    why: Annotated[
        str | None,
        typer.Option(
            "--why",
            metavar="DOCUMENT",
            help="Show instead how far this document comes, and the stage that loses it.",
        ),
    ] = None,
    workflow: Annotated[
        str | None,
        typer.Option(
            "--workflow",
            "-w",
            help="The workflow in which ids are looked up, or whose bindings are searched.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="The task whose bindings are searched.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The agent whose bindings are searched.")
    ] = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Search knowledge bases and print the passages, best first.

    Several are searched together. If their embedders differ, the passages are ordered by rank.
    """
    kb_ids, is_option = list(words or ()), question is not None
    if question is None:
        question = kb_ids.pop() if kb_ids else ""
    settings: dict[str, Any] = {
        "top_k": top_k,
        "min_score": min_score,
        "strategy": strategy,
        "filters": filter_values(filters or []) or None,
    }
    bindings: list[ResolvedBinding] = []
    terms: MatchingTerms = {}
    with open_target(project) as loaded:
        if not (is_option or kb_ids) and (not words or _is_id(loaded, question)):
            raise UsageError(f'write one question: lorebind query {question or "ID"} "…"')
        if why is not None:
            if len(kb_ids) != 1 or task or agent:
                raise UsageError("--why looks into one knowledge base; write its id only")
            kb = loaded.knowledge_base(kb_ids[0], workflow=workflow)
            chosen = {name: value for name, value in settings.items() if value is not None}
            _print_path(kb.why(question, why, **chosen), output)
            return
        place = loaded.at(*kb_ids, workflow=workflow, task=task, agent=agent)
        if explain:
            result, bindings, terms = place.explain_query(question, **settings)
        else:
            result = place.query(question, **settings)
    for notice in result.notices:
        print_line(f"note: {notice}", stderr=True)
    if output is not Output.table:
        first = bindings[0] if bindings else None
        data = {"result": result, "binding": first, "bindings": bindings, "terms": terms}
        print_data(data if explain else result, output)
    elif result.matches:
        print_matches(result, question, explain=explain, terms=terms)
        if result.shortfall:
            print_line(result.shortfall)
    elif not result.searched:
        print_line(result.shortfall)
    else:
        hint = "" if explain else "; show their values with --explain"
        ids = ", ".join(result.searched)
        print_line(f"no passage of {ids} matches the question, min_score and filters{hint}")
    if output is Output.table:
        for binding in bindings:
            print_binding(binding)
    if not result.matches:
        raise typer.Exit(1)


def _print_path(path: SearchPath, output: Output) -> None:
    """Print the rank and score of a document at each stage of a search."""
    if output is not Output.table:
        print_data(path, output)
        return
    rows = (
        (
            stage.stage,
            f"{stage.rank} of {stage.of}" if stage.rank else "",
            "" if stage.score is None else f"{stage.score:.3f}",
            "" if stage.passes else "lost",
            stage.note,
        )
        for stage in path.stages
    )
    print_table(("stage", "rank", "score", "", "note"), rows)
    print_line(path.explanation)


def _is_id(project: AnyProject, word: str) -> bool:
    """Return whether the only word is the id of a knowledge base, so that the question lacks."""
    return not any(map(str.isspace, word)) and any(
        kb.id == word for kb in project.knowledge_bases()
    )
