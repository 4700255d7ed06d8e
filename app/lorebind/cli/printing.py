"""What is printed: data as JSON or YAML, and tables, passages and answers for people."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from lorebind.cli.options import Output

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from lorebind_bindings import Answer
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
    from lorebind_knowledge.records import DocumentMatch, QueryResult

SNIPPET_LINES = 4
PLAIN_WIDTH = 100


@cache
def console(*, stderr: bool = False) -> Console:
    """Standard output, or standard error for what is not a result. Plain when not a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(stderr=stderr, highlight=False, markup=False, width=width)


def print_data(value: Any, output: Output) -> None:
    """A result as JSON or YAML."""
    data = as_data(value)
    if output is Output.json:
        print(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        import yaml

        text = json.dumps(data)  # plain types only, whatever the result was made of
        print(yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True), end="")


def as_data(value: Any) -> Any:
    """Dataclasses and declarations, within mappings and lists too, as plain mappings."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = (field.name for field in fields(value) if field.repr)
        return {name: as_data(getattr(value, name)) for name in shown}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")  # a place that is cut short leads nowhere
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    out = console()
    with out.capture() as printed:
        out.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))


def plan_line(plan: IngestPlan) -> str:
    """One line that says what an ingest is going to do."""
    documents = plan.documents
    total = sum(documents.values()) - documents["removed"]
    changes = ", ".join(
        f"{documents[name]} {word}"
        for name, word in (
            ("added", "new"),
            ("updated", "changed"),
            ("removed", "removed"),
            ("unchanged", "unchanged"),
            ("failed", "unreadable"),
        )
        if documents[name]
    )
    return (
        f"Plan: {counted(total, 'document')} ({changes or 'none'}), "
        f"{counted(plan.chunks['total'], 'chunk')}, {plan.texts_to_embed} to embed, "
        f"{plan.cache_hits} cached"
    )


def tokens_line(plan: IngestPlan) -> str:
    """What the texts to embed amount to, and what they cost where the price is declared."""
    exactness = "exact" if plan.exact else "estimated"
    line = f"Tokens to embed: {plan.tokens_to_embed:,} ({plan.tokenizer}, {exactness})"
    if plan.cost is None:
        return line
    if 0 < plan.cost < 0.0001:
        return f"{line}, cost less than 0.0001"
    return f"{line}, cost {plan.cost:,.{2 if plan.cost >= 1 else 4}f}"


def print_report(report: IngestReport) -> None:
    """The summary of an ingest, and everything that failed."""
    print_table(
        ("", "added", "updated", "removed", "unchanged", "failed", "total"),
        (
            ("documents", *_cells(report.documents), _total_documents(report)),
            ("chunks", *_cells(report.chunks), report.chunks["total"]),
        ),
    )
    rate = f" ({report.texts_embedded / report.seconds:.0f}/s)" if report.texts_embedded else ""
    out = console()
    out.print(
        f"{report.kb_id}: {report.status.replace('_', ' ')} in {report.seconds:.1f} s; "
        f"{report.texts_embedded} embedded{rate}, {report.cache_hits} from the cache",
        soft_wrap=True,
    )
    if report.texts_truncated:
        out.print(
            f"note: {counted(report.texts_truncated, 'chunk')} longer than the embedder reads; "
            "a smaller chunking size keeps all of a chunk in its vector",
            soft_wrap=True,
        )
    for notice in report.notices:
        out.print(f"note: {notice}", soft_wrap=True)
    for source in report.sources:
        if source.status == "failed":
            out.print(f"failed source {source.source}: {source.reason}", soft_wrap=True)
    for failure in report.failures:
        out.print(f"failed document {failure.reason} (attempt {failure.attempts})", soft_wrap=True)


def print_matches(result: QueryResult, question: str) -> None:
    """Ranked passages: score, file and lines, and a snippet with the question's words marked."""
    from rich.text import Text

    out = console()
    words = {word.lower() for word in re.findall(r"\w{3,}", question)}
    for rank, match in enumerate(result.matches, start=1):
        header = Text(f"{rank:>2}  {match.score:.3f}  ", style="bold")
        if "fused" in match.scores:  # a share of the best: how near it is, the cosine says
            header.append(f"cosine {match.scores['dense']:.3f}  ", style="dim")
        header.append(location(match), style="cyan")
        if heading := match.metadata.get("heading"):
            header.append(f"  {heading}", style="dim")
        out.print(header, soft_wrap=True)
        for line in _snippet(match.text, words):
            text = Text(f"    {line}")
            for word in words:
                text.highlight_regex(rf"(?i)\b{re.escape(word)}\w*", "bold yellow")
            out.print(text, overflow="ellipsis", no_wrap=True)
        out.print()


def location(match: DocumentMatch) -> str:
    """`docs/cors.md:12-30`, a path that terminals and editors can open; else page or time."""
    about = match.metadata
    uri, first, last = about["uri"], about.get("line_start"), about.get("line_end")
    if "page" in about or "time_start" in about:
        from lorebind_prompts.citations import place_of

        return f"{uri} {place_of(about)}"
    lines = "" if first is None else f":{first}" if first == last else f":{first}-{last}"
    return f"{uri}{lines}"


def print_answer(answer: Answer) -> None:
    """The answer, its sources, and what the prompt cost."""
    out = console()
    out.print(answer.text, soft_wrap=True)
    if answer.citations:
        out.print()
        for citation in answer.citations:
            out.print(f"{citation.marker} {citation.label}", soft_wrap=True)
    for marker in answer.unknown_markers:
        out.print(f"warning: {marker} in the answer belongs to no passage")
    exactness = "exact" if answer.usage["exact"] else "estimated"
    dropped = f"; {answer.dropped} passages did not fit" if answer.dropped else ""
    out.print()
    out.print(
        f"Prompt: {answer.usage['prompt_tokens']} tokens ({answer.usage['tokenizer']}, "
        f"{exactness}), {counted(len(answer.offered), 'passage')}{dropped}"
    )


def _snippet(text: str, words: set[str]) -> list[str]:
    """The lines around the one that has most of the question's words."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines:
        return []

    def matching(line: str) -> int:
        return len(words & set(re.findall(r"\w+", line.lower())))

    best = max(range(len(lines)), key=lambda index: (matching(lines[index]), -index))
    first = max(0, min(best - 1, len(lines) - SNIPPET_LINES))
    return lines[first : first + SNIPPET_LINES]


def _cells(counts: dict[str, int]) -> list[Any]:
    return [counts.get(name, "") for name in ("added", "updated", "removed", "unchanged", "failed")]


def _total_documents(report: IngestReport) -> int:
    return sum(report.documents.values()) - report.documents["removed"]


def counted(number: int, noun: str) -> str:
    """`1 chunk`, `2 chunks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
