"""`lorebind ask`: from any folder, or a project, to a cited answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorebind.cli.options import Output, OutputOption
from lorebind_knowledge.errors import ReadOnlyError, SourceError, UsageError

if TYPE_CHECKING:
    from lorebind.project import Project
    from lorebind_knowledge.ingest.report import IngestReport

FOLDER_KB = "files"


def ask(
    path: Annotated[str, typer.Argument(metavar="PATH_OR_PROJECT", help="A folder, or a project.")],
    question: Annotated[str, typer.Argument(help="What to find out.")],
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=1, max=50, help="How many passages.")
    ] = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Let the project run and read what it names, this once."),
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Answer a question from the documents of a folder or project, with citations.

    No configuration is needed: the folder's Markdown and text files are indexed in its .lorebind
    folder. The second run embeds only what changed.

    A project that names code or variables is asked only when you have made it by `init`, or
    trusted it by `trust`.
    """
    from lorebind.cli.printing import console, print_answer, print_data, print_matches

    if not question.strip():
        raise UsageError("the question is empty; give it some words")
    with _project(Path(path), trusted=trust) as project:
        reports = [
            report
            for kb in project.config.project.knowledge_bases
            if (report := _ingest(project, kb.id, output)) is not None
        ]
        answer = project.ask(question, top_k=top_k)
        if output is not Output.table:
            data: dict[str, Any] = {
                "ingests": reports,
                "results": {found.binding.id: found.result for found in answer.results},
                "answer": answer.text,
                "verdict": answer.verdict,
                "citations": answer.citations,
                "unknown_markers": answer.unknown_markers,
                "usage": answer.usage,
            }
            print_data(data, output)
        else:
            out = console()
            for found in answer.results:
                out.rule(f"Passages of {found.binding.id}", align="left")
                print_matches(found.result, question)
                if not found.hit:
                    out.print(found.shortfall, soft_wrap=True)
            out.rule("Answer", align="left")
            print_answer(answer)
    if answer.verdict != "hit":
        raise typer.Exit(1)


def _ingest(project: Project, kb_id: str, output: Output) -> IngestReport | None:
    """Bring a knowledge base up to date; of a folder without any text nothing is written.

    An index that can be read only stays as it is: None.
    """
    from lorebind.cli.ingesting import ingest_with_bars, show_plan

    try:
        plan = show_plan(project, kb_id, output)
    except ReadOnlyError:  # others fill it
        return None
    # The index of a plain folder is no more than a cache of it: it may shrink as the folder does.
    from_folder = project.config.file is None
    if from_folder and not plan.chunks["total"]:
        reasons = [source.reason for source in plan.sources if source.status == "failed"]
        reasons += [failure.reason for failure in plan.failures]
        nothing = "; ".join(reasons) or "no document has any text"
        raise SourceError(f"there is nothing to search in {kb_id!r}: {nothing}")
    try:
        return ingest_with_bars(
            project, kb_id, plan, output, allow_mass_delete=from_folder, wait=True
        )
    except ReadOnlyError:
        return None


def _project(path: Path, *, trusted: bool) -> Project:
    """The project at the path, or one made up for a plain folder."""
    from lorebind.cli.trust import check_trusted
    from lorebind.project import Project
    from lorebind_knowledge.configuration import PROJECT_FILE
    from lorebind_knowledge.loaders.registry import SUPPORTED_SUFFIXES

    if path.is_file() or (path / PROJECT_FILE).is_file():
        if not trusted:
            check_trusted(path)
        return Project.load(path)
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder; give the folder that holds the documents")
    endings = ",".join(suffix.removeprefix(".") for suffix in SUPPORTED_SUFFIXES)
    knowledge_base = {
        "id": FOLDER_KB,
        "sources": [{"type": "file_glob", "path": f"**/*.{{{endings}}}"}],
        # A passage of this size is seldom longer than the embedder reads, code and tables included.
        "chunking": {"size": 600, "overlap": 90},
    }
    return Project.build({"name": "ask", "knowledge_bases": [knowledge_base]}, root=path)
