"""`lorebind ask`: answer a question from any folder or project, with citations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lorebind.cli.chat import converse
from lorebind.cli.ingesting import ingested
from lorebind.cli.opening import project_at
from lorebind.cli.options import NoVectorsOption, Output, OutputOption, TopKOption, TrustOption
from lorebind.cli.printing import print_answer, print_data, print_matches
from lorebind.cli.terminal import console
from lorebind_config.errors import UsageError


def ask(
    path: Annotated[
        str, typer.Argument(metavar="PATH_OR_PROJECT", help="A folder, a document or a project.")
    ],
    question: Annotated[str, typer.Argument(help="The question to answer.")],
    top_k: TopKOption = None,
    trust: TrustOption = False,
    no_vectors: NoVectorsOption = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Continue with further questions afterwards.")
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Answer a question from the documents of a folder or project, with citations.

    No configuration is needed: the files of the folder are indexed in its .lorebind folder. The
    second run embeds only changed files. Skipped files are counted; --output json names all of
    them.

    If a project wants to run code, to send variables or to leave its folder, you are asked first in
    a terminal. Otherwise, trust it with `trust`.
    """
    if chat and output is not Output.table:
        raise UsageError("--chat prints a conversation, not data; omit --output or --chat")
    if not question.strip():
        raise UsageError("the question is empty; write a question")
    with project_at(Path(path), trusted=trust, no_vectors=no_vectors) as project:
        reports = ingested(project, output)
        answer = project.ask(question, top_k=top_k)
        if output is not Output.table:
            data: dict[str, Any] = {
                "ingests": reports,
                "results": {result.binding.id: result.result for result in answer.results},
                "answer": answer.text,
                "verdict": answer.verdict,
                "citations": answer.citations,
                "unknown_markers": answer.unknown_markers,
                "usage": answer.usage,
            }
            print_data(data, output)
        else:
            out = console()
            for result in answer.results:
                out.rule(f"Passages of {result.binding.id}", align="left")
                print_matches(result.result, question)
                if not result.hit:
                    out.print(result.shortfall, soft_wrap=True)
            out.rule("Answer", align="left")
            print_answer(answer)
        if chat:
            converse(project, [("user", question), ("assistant", answer.text)], top_k)
            return
    if answer.verdict != "hit":
        raise typer.Exit(1)
