"""`lorebind eval`: compare retrieval strategies on questions with relevance judgments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lorebind.cli.opening import open_project
from lorebind.cli.options import IdArgument, Output, OutputOption, ProjectOption, WorkflowOption
from lorebind.cli.printing import print_data, print_table
from lorebind.cli.terminal import print_line

if TYPE_CHECKING:
    from lorebind_knowledge.evaluation.evaluate import StrategyScores
    from lorebind_knowledge.evaluation.tuning import Tuning

_COLUMNS = (
    *("strategy", "nDCG@10", "against the first", "recall@10", "recall@100", "MRR"),
    *("p50 ms", "p95 ms"),
)


def evaluate(
    kb_id: IdArgument,
    queries: Annotated[Path, typer.Option("--queries", help='JSON Lines: {"id", "text"}.')],
    qrels: Annotated[Path, typer.Option("--qrels", help="TSV file: query, document, relevance.")],
    strategies: Annotated[
        list[str] | None,
        typer.Option("--strategy", help="Default: all that need no further settings."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="ID",
            help="Another knowledge base of the same documents, such as one with another embedder.",
        ),
    ] = None,
    questions: Annotated[
        bool,
        typer.Option("--questions", help="Show the figures of each question, the worst first."),
    ] = False,
    min_ndcg: Annotated[
        float | None,
        typer.Option(
            "--min-ndcg",
            min=0,
            max=1,
            help="Fail if the nDCG@10 of the declared strategy is below this.",
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose the fusion weight by cross-validation.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write a chart: .png, .svg or .pdf.")
    ] = None,
    workflow: WorkflowOption = None,
    project: ProjectOption = ".",
    output: OutputOption = Output.table,
) -> None:
    """Measure the search quality of a knowledge base; a document scores as its best chunk does."""
    with open_project(project) as loaded:
        kb = loaded.knowledge_base(kb_id, workflow=workflow)
        scores = kb.evaluate(queries, qrels, strategies=strategies, against=against or ())
        tuning = kb.tune(queries, qrels) if tune else None
    declared = scores[0]
    if plot is not None:
        from lorebind_knowledge.evaluation.evaluate import plot_scores

        plot_scores(scores, f"{kb_id}, {declared.queries} questions", plot)
    if output is Output.table:
        print_table(_COLUMNS, map(_row, scores))
        if questions:
            print()
            _print_questions(scores)
        if tuning is not None:
            print_line(_advice(tuning))
    else:
        print_data({"strategies": scores, "tuning": tuning}, output)
    if min_ndcg is not None and declared.ndcg_10 < min_ndcg:
        print_line(
            f"lorebind: {declared.strategy} has nDCG@10 {declared.ndcg_10:.3f}, less than "
            f"{min_ndcg:g}",
            stderr=True,
        )
        raise typer.Exit(1)


def _row(score: StrategyScores) -> tuple[str, ...]:
    return (
        score.strategy,
        f"{score.ndcg_10:.3f}",
        str(score.against_first or ""),
        *(f"{figure:.3f}" for figure in (score.recall_10, score.recall_100, score.mrr)),
        *(f"{figure:.1f}" for figure in (score.p50_ms, score.p95_ms)),
    )


def _print_questions(scores: Sequence[StrategyScores]) -> None:
    """Print the nDCG@10 of each question, the worst of the declared strategy first."""
    ways = ("id", "question", *(score.strategy for score in scores), "not among 10")
    rows = zip(*(score.questions for score in scores), strict=True)
    print_table(
        ways,
        (
            (
                declared.id,
                declared.text,
                *(f"{result.ndcg_10:.3f}" for result in (declared, *others)),
                ", ".join(declared.missing),
            )
            for declared, *others in sorted(rows, key=lambda row: row[0].ndcg_10)
        ),
        long=("question", "not among 10"),
    )


def _advice(tuning: Tuning) -> str:
    compared = (
        f"a weight chosen on other questions has nDCG@10 {tuning.ndcg_10:.3f}, the declared "
        f"settings have {tuning.declared_ndcg_10:.3f}: {tuning.difference}"
    )
    if tuning.is_noise:
        return f"keep the settings: {compared}, which may be chance"
    if tuning.difference.mean < 0:
        return f"keep the settings: {compared}"
    return f"set strategy: hybrid and signals: {{ dense: {tuning.dense:g} }}: {compared}"
