"""Print results: data as JSON or YAML, and tables, passages and answers as text."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lorebind.cli.options import Output
from lorebind.cli.terminal import console, is_showable, one_line, print_line, visible
from lorebind.plain_data import as_data
from lorebind_knowledge.ingest.report import skipped_summary
from lorebind_knowledge.loaders.textless import parts_in_words
from lorebind_knowledge.text.languages import detect_language
from lorebind_knowledge.text.splitting import words_of
from lorebind_knowledge.text.terms import content_words

if TYPE_CHECKING:
    from lorebind_bindings import Answer
    from lorebind_knowledge.documents.listing import ChunkInfo, DocumentInfo
    from lorebind_knowledge.ingest.report import Failure, IngestPlan, IngestReport, SourceReport
    from lorebind_knowledge.records import (
        DocumentMatch,
        MatchingTerm,
        MatchingTerms,
        QueryResult,
    )

SNIPPET_LINES = 4
SHORTEST_MARKED = 3
"""Minimum length of a word that is marked: shorter ones begin too many others."""
UNLIMITED = 1_000_000
USUAL_WIDTH = 80
LONG_WIDTH = 30
_NAMED = 3
"""Maximum number of names in a note."""
_WAYS_TO_READ = {
    "": "",
    "as_text": "; to read them as plain text, list them in as_text of the source",
    "respect_gitignore": "; to read them, set respect_gitignore: false for the source",
    "paths": "; to read one, name it in paths of the source",
}
"""How to read skipped files, by the setting of their source."""


def print_data(value: Any, output: Output) -> None:
    """Print a result as exact JSON or YAML; characters that cannot be shown are escaped."""
    data = as_data(value)
    text = _as_text(data, output, ascii_only=False)
    if not is_showable(text, sys.stdout.encoding):
        text = _as_text(data, output, ascii_only=True)
    print(text)


def _as_text(data: Any, output: Output, *, ascii_only: bool) -> str:
    if output is Output.json:
        return json.dumps(data, indent=2, ensure_ascii=ascii_only)
    from lorebind_config.editing.yaml_text import as_yaml  # with PyYAML, only for `-o yaml`

    plain = json.loads(json.dumps(data))  # converts subclasses of plain types, too
    return as_yaml(plain, ascii_only=ascii_only).removesuffix("\n")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, long: Collection[str] = ()
) -> None:
    """Print a table. In a terminal, cells wrap. Other programs get each row as one line.

    Args:
        columns: their names.
        rows: the cells of each row.
        long: columns of cells so long that they wrap for other programs too.
    """
    # rich takes .03 s to import, which results of one line or as data do not need.
    from rich import box
    from rich.table import Table

    out = console(plain_width=UNLIMITED)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        # Ids stay whole, to be copied. A narrow terminal would have no room left for other cells.
        whole = column == "id" and out.width >= USUAL_WIDTH
        width = LONG_WIDTH if column in long and out.width == UNLIMITED else None
        # A truncated path would be useless.
        table.add_column(column, overflow="fold", no_wrap=whole, max_width=width)
    for row in rows:
        table.add_row(*(one_line(str(cell)) for cell in row))
    with out.capture() as printed:
        out.print(table)
    # Cells are escaped already, and `styled` keeps the colors.
    print("\n".join(line.rstrip() for line in printed.get().splitlines()), file=out.file)


def utc_time(seconds: float) -> str:
    """Return a time, in seconds since 1970, as it is printed."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def plan_line(plan: IngestPlan) -> str:
    """Summarize an ingest plan in one line."""
    documents = plan.documents
    total = sum(documents.values()) - documents["removed"]
    pages = plan.pages_to_recognize
    scanned = counted(pages, "scanned page")
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
        f"{f', terms for {plan.terms_to_add}' if plan.terms_to_add else ''}"
        f"{f', {scanned} to recognize' if pages else ''}"
    )


def tokens_line(plan: IngestPlan) -> str:
    """Describe the tokens to embed, and their cost if the price is declared."""
    exactness = "exact" if plan.exact else "estimated"
    line = f"Tokens to embed: {plan.tokens_to_embed:,} ({plan.tokenizer}, {exactness})"
    if plan.cost is None:
        return line
    if 0 < plan.cost < 0.0001:
        return f"{line}, cost less than 0.0001"
    return f"{line}, cost {plan.cost:,.{2 if plan.cost >= 1 else 4}f}"


def print_report(report: IngestReport) -> None:
    """Print the summary of an ingest, and everything that failed."""
    print_table(
        ("", "added", "updated", "removed", "unchanged", "failed", "total"),
        (
            ("documents", *_cells(report.documents), _total_documents(report)),
            ("chunks", *_cells(report.chunks), report.chunks["total"]),
        ),
    )
    rate = f" ({report.texts_embedded / report.seconds:.0f}/s)" if report.texts_embedded else ""
    print_line(
        f"{report.kb_id}: {report.status.replace('_', ' ')} in {report.seconds:.1f} s; "
        f"{report.texts_embedded} embedded{rate}, {report.cache_hits} from the cache"
    )
    print_without_text(report)
    for notice in report.notices:
        print_line(f"note: {notice}")
    print_source_reports(report.sources)
    print_failures(report.failures)


def print_failures(failures: Sequence[Failure | DocumentInfo], word: str = "failed") -> None:
    """Print each reason for which documents could not be read, with its documents.

    A missing extra is the reason for all documents of a format, so it is printed once.
    """
    by_reason: dict[str, list[Failure | DocumentInfo]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure)
    for reason, some in by_reason.items():
        if reason.startswith(some[0].uri):
            print_line(f"{word} document {reason} (attempt {some[0].attempts})")
        else:
            names = _first_of([failure.uri for failure in some])
            print_line(f"{word} {counted(len(some), 'document')}: {reason}: {names}")


def print_without_text(result: IngestPlan | IngestReport) -> None:
    """Print how many documents and pages have no text, and name some of the documents."""
    if result.without_text:
        print_line(f"note: {without_text(result)}")
    if documents := result.textless_parts:
        total: Counter[str] = Counter()
        for parts in documents.values():
            total.update(parts)
        names = [
            f"{uri} ({parts_in_words(parts) if len(total) > 1 else sum(parts.values())})"
            for uri, parts in sorted(documents.items())
        ]
        advice = "; to make their content searchable, recognize the text (OCR)"
        if getattr(result, "pages_to_recognize", 0):
            advice = "; the ingest recognizes the text of scanned pages"
        print_line(
            f"note: {parts_in_words(total)} of {counted(len(documents), 'document')} without text: "
            f"{_first_of(names)}{advice}"
        )


def print_reprocessed(plan: IngestPlan) -> None:
    """Print how many documents are updated because of settings, and name some of them."""
    if uris := plan.reprocessed:
        print_line(
            f"note: settings or steps have changed for {counted(len(uris), 'document')}: "
            f"{_first_of(uris)}"
        )


def without_text(result: IngestPlan | IngestReport) -> str:
    """Return how many documents have no text, with the names of the first."""
    uris = result.without_text
    have = "has" if len(uris) == 1 else "have"
    return f"{counted(len(uris), 'document')} {have} no text: {_first_of(uris)}"


def _first_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def print_source_reports(sources: Sequence[SourceReport]) -> None:
    """Print skipped files, notices about the sources, and the folders and sources that failed."""
    print_skipped(sources)
    for source in sources:
        for notice in source.notices:
            print_line(f"note: source {source.source}: {notice}")
        for folder in source.unlisted:
            print_line(
                f"failed folder {folder.uri}: cannot be listed: {folder.reason}; "
                "make it readable; until then, its documents stay in the index"
            )
        if source.status == "failed":
            print_line(f"failed source {source.source}: {source.reason}")


def print_skipped(sources: Iterable[SourceReport]) -> None:
    """Print how many files are skipped and why, some names, and how to read them."""
    skipped = list(dict.fromkeys(item for source in sources for item in source.skipped))
    if not skipped:
        return
    # An unchanged ingest needs no loaders, which take .02 s to import.
    from lorebind_knowledge.loaders.registry import conversion_of

    folders = sum(item.uri.endswith("/") for item in skipped)
    files = len(skipped) - folders
    counts = [counted(files, "file")] * bool(files) + [counted(folders, "folder")] * bool(folders)
    print_line(f"skipped {' and '.join(counts)}:")
    for setting in sorted({item.setting for item in skipped}):
        some = [item for item in skipped if item.setting == setting]
        names = _first_of([item.uri for item in some])
        way = _WAYS_TO_READ.get(setting, f"; to read them, see {setting} of the source")
        print_line(f"  {skipped_summary(some)} ({names}){way}")
    for ending in sorted({item.reason for item in skipped}):
        if conversion := conversion_of(ending):
            print_line(f"  {conversion}")


def print_matches(
    result: QueryResult,
    question: str,
    *,
    explain: bool = False,
    terms: MatchingTerms | None = None,
) -> None:
    """Print ranked passages: score, relevance, file and lines, and a snippet with marked words.

    With `explain`, also print the figures behind each score and the matching terms.
    """
    from rich.text import Text

    out = console()
    words = _words_to_mark(question)
    for rank, match in enumerate(result.matches, start=1):
        header = Text(f"{rank:>2}  {match.score:.3f}  ", style="bold")
        header.append(f"relevance {match.relevance:.3f}  ", style="dim")
        place = location(match)
        if len(result.searched) > 1:
            header.append(f"{match.metadata['kb_id']}  ")
        header.append(one_line(place), style="cyan")
        heading = match.metadata.get("heading")
        if heading and heading.replace(" > ", " › ") not in place:  # Word is cited by its headings
            header.append(one_line(f"  {heading}"), style="dim")
        out.print(header, soft_wrap=True)
        if explain:
            figures = ", ".join(f"{name} {value:.3f}" for name, value in match.scores.items())
            out.print(Text(f"    figures: {one_line(figures)}", style="dim"), soft_wrap=True)
            if matching := (terms or {}).get(match.id):
                named = ", ".join(_term(name, term) for name, term in matching.items())
                out.print(Text(f"    terms: {one_line(named)}", style="dim"), soft_wrap=True)
        for line in _snippet(match.text, words):
            text = Text(f"    {visible(line)}")
            for word in words:
                text.highlight_regex(rf"(?i)\b{re.escape(word)}\w*", "bold yellow")
            out.print(text, overflow="ellipsis", no_wrap=True)
        out.print()
    if explain:
        stage = f", stage {result.stage}" if result.stage else ""
        print_line(f"{result.verdict} by {result.strategy}{stage} in {result.seconds:.3f} s")


def _term(name: str, term: MatchingTerm) -> str:
    """Return a term with its share; an arrow marks related words."""
    return f"{'→ ' if term.related else ''}{name} {term.share:.2f}"


def print_chunks(chunks: Iterable[ChunkInfo]) -> None:
    """Print whole chunks: file and lines, then the text."""
    from rich.text import Text

    out = console()
    for chunk in chunks:
        out.print(Text(one_line(location(chunk)), style="cyan"), soft_wrap=True)
        for line in chunk.text.splitlines():
            out.print(Text(f"    {visible(line)}".rstrip()), soft_wrap=True)
        out.print()


def location(match: DocumentMatch | ChunkInfo) -> str:
    """Return a path that terminals and editors open, `docs/cors.md:12-30`, or `a.pdf, page 4`."""
    # Only commands that print passages need the templates of citations.
    from lorebind_prompts.citations import named_place

    about = match.metadata
    uri, first, last = about["uri"], about.get("line_start"), about.get("line_end")
    if place := named_place(about):
        return f"{uri}, {place}"
    lines = "" if first is None else f":{first}" if first == last else f":{first}-{last}"
    return f"{uri}{lines}"


def print_answer(answer: Answer) -> None:
    """Print the answer, its sources, and the size of the prompt."""
    print(answer.text)
    print_sources(answer)
    exactness = "exact" if answer.usage["exact"] else "estimated"
    dropped = f"; {answer.dropped} passages did not fit" if answer.dropped else ""
    print()
    print_line(
        f"Prompt: {answer.usage['prompt_tokens']} tokens ({answer.usage['tokenizer']}, "
        f"{exactness}), {counted(len(answer.offered), 'passage')}{dropped}"
    )


def print_sources(answer: Answer) -> None:
    """Print the source of each marker in an answer."""
    if answer.citations:
        print()
        for citation in answer.citations:
            print_line(f"{citation.marker} {citation.label}")
    for marker in answer.unknown_markers:
        print_line(f"warning: {marker} in the answer belongs to no passage")


def _words_to_mark(question: str) -> set[str]:
    words = content_words(question, [detect_language(question)]) or words_of(question)
    return {word for word in words if len(word) >= SHORTEST_MARKED}


def _snippet(text: str, words: set[str]) -> list[str]:
    """Return the lines around the one that has most of the question's words."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines:
        return []

    def matching(line: str) -> int:  # a long word says more than a short one
        there = set(words_of(line))
        return sum(len(word) for word in words if any(other.startswith(word) for other in there))

    best = max(range(len(lines)), key=lambda index: (matching(lines[index]), -index))
    first = max(0, min(best - 1, len(lines) - SNIPPET_LINES))
    return lines[first : first + SNIPPET_LINES]


def _cells(counts: dict[str, int]) -> list[Any]:
    return [counts.get(name, "") for name in ("added", "updated", "removed", "unchanged", "failed")]


def _total_documents(report: IngestReport) -> int:
    return sum(report.documents.values()) - report.documents["removed"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 chunk` or `2 chunks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
