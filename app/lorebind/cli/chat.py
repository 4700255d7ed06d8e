"""`lorebind chat`: a conversation in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lorebind.cli.ingesting import ingested
from lorebind.cli.opening import project_at
from lorebind.cli.options import NoVectorsOption, Output, TopKOption, TrustOption
from lorebind.cli.printing import print_sources
from lorebind.cli.terminal import print_line
from lorebind_config.errors import LorebindError

if TYPE_CHECKING:
    from lorebind.project import Project

_REMEMBERED = 20
"""Number of previous messages that the model gets with each question."""
_ENDING = ("exit", "quit")
"""Words that end the conversation, as in other shells."""


def chat(
    path: Annotated[
        str, typer.Argument(metavar="PATH_OR_PROJECT", help="A folder or a project.")
    ] = ".",
    top_k: TopKOption = None,
    trust: TrustOption = False,
    no_vectors: NoVectorsOption = False,
) -> None:
    """Answer questions in turn, each with the previous messages as context.

    The documents are the same as for `ask`. Ctrl-D, `exit` or `quit` ends the conversation.
    """
    with project_at(Path(path), trusted=trust, no_vectors=no_vectors) as project:
        ingested(project, Output.table)
        converse(project, [], top_k)


def converse(project: Project, history: list[tuple[str, str]], top_k: int | None) -> None:
    """Answer the user's questions until the input ends. After a failure, the user can ask again."""
    for question in _questions():
        try:
            answer = project.ask(question, top_k=top_k, history=history[-_REMEMBERED:])
        except LorebindError as error:
            print_line(f"lorebind: {error}", stderr=True)
            continue
        print(answer.text)
        print_sources(answer)
        for result in answer.results:
            if not result.hit:
                print_line(result.shortfall)
        print(flush=True)
        history += [("user", question), ("assistant", answer.text)]


def _questions() -> Iterator[str]:
    """Yield the lines that the user types, except blank ones, until one ends the conversation."""
    prompt = ""
    if sys.stdin.isatty():
        prompt = "> "
        print("Ask a question. Type exit, or press Ctrl-D, to end the conversation.")
        with suppress(ImportError):
            import readline  # noqa: F401  # `input` then knows arrow keys
    with suppress(EOFError):
        while True:
            line = input(prompt).strip()
            if line.lower().removeprefix("/") in _ENDING:
                return
            if line:
                yield line
