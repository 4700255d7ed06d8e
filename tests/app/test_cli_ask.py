"""`lorebind ask`: from a folder to a cited answer, with no configuration."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.bindings.helpers import PARTS

from .helpers import DOCUMENTS, PROJECT, run_forked

if TYPE_CHECKING:
    from .forked_python import ForkedPython
    from .helpers import Cli

QUESTION = "How often must the keys be rotated?"


def test_a_folder_answers(empty_cli: Cli, forked: ForkedPython) -> None:
    """A plain folder is indexed and answers, with passages, citations and the size of the
    prompt."""
    empty_cli.write(DOCUMENTS | {"notes.txt": "Lunch is at noon.\n", "ignored.bin": "x"})
    done = run_forked(forked, empty_cli.root, "ask", ".", QUESTION)
    assert (done.code, done.err) == (0, "")
    assert "Plan: 4 documents (4 new), 4 chunks, 4 to embed, 0 cached" in done.out
    assert "> Rotate the keys with the rotate command every ninety days. [1]" in done.out
    assert "[1] docs/keys.md, lines 1-3" in done.out
    assert "\nskipped: .bin 1; to read them, see as_text of the source\n" in done.out
    assert re.search(r"Prompt: \d+ tokens \(o200k_base, exact\), \d passages", done.out)
    assert (empty_cli.root / ".lorebind/.gitignore").read_text() == "*\n"

    again = empty_cli("ask", ".", QUESTION)
    assert "4 unchanged" in again.out
    assert "0 to embed" in again.out
    assert "0 embedded" not in again.out, "the plan has said that nothing changed"
    assert "\nskipped: .bin 1; " in again.out

    data = json.loads(empty_cli("ask", ".", QUESTION, "--output", "json", "--top-k", "2").out)
    assert data["ingests"][0]["texts_embedded"] == 0
    assert len(data["results"]["files"]["matches"]) == 2

    empty_cli.write({"notes.txt": "Lunch is at one.\n"})
    changed = empty_cli("ask", ".", "When is lunch?")
    assert "1 changed" in changed.out
    assert "1 to embed" in changed.out
    assert "Lunch is at one." in changed.out


def test_the_passage_is_shown_around_the_words_that_matter(empty_cli: Cli) -> None:
    """A long word of the question, in any form, counts more for the snippet than short ones."""
    lines = ("# Costs", "Hotels may cost 140 euros.", "", "a", "b", "c", "You can claim how much.")
    empty_cli.write({"costs.md": "\n".join(lines)})
    done = empty_cli("ask", ".", "How much can I pay for a hotel?")
    snippet, _, _ = done.out.partition("Answer ")
    assert "    Hotels may cost 140 euros.\n" in snippet
    assert "You can claim" not in snippet


def test_a_question_that_is_not_answered_exits_1(empty_cli: Cli) -> None:
    """If no passage is likely to answer, this is printed with the nearest ones, and the exit code
    is 1."""
    empty_cli.write(DOCUMENTS)
    done = empty_cli("ask", ".", "What is the capital of Mongolia?")
    assert (done.code, done.err) == (1, "")
    assert "the match is weak: the best passage of knowledge base 'files'" in done.out
    assert "match this question only weakly" in done.out
    assert "\n> " in done.out


def test_a_project_is_asked_with_what_it_declares(ready_cli: Cli) -> None:
    """In a project, its own bindings and embedders are used, and its knowledge bases are
    ingested."""
    for path in (".", "lorebind.yaml"):
        data = json.loads(ready_cli("ask", path, QUESTION, "-o", "json").out)
        assert [report["kb_id"] for report in data["ingests"]] == ["docs", "rules"]
        assert list(data["results"]) == ["docs"]
        assert data["verdict"] == "hit"
        assert data["citations"][0]["uri"] == "docs/keys.md"


def test_a_projects_question_may_miss(ready_cli: Cli) -> None:
    """The project's own threshold decides about a miss, and the fallback is not an answer."""
    strict = PROJECT.replace("{ id: docs }]\na", "{ id: docs, min_score: 0.99 }]\na")
    assert strict != PROJECT
    ready_cli.write({"lorebind.yaml": strict})
    done = ready_cli("ask", ".", QUESTION, "-o", "json")
    data = json.loads(done.out)
    assert (done.code, data["verdict"], data["citations"]) == (1, "fallback", [])


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "no file in .* matches"),
        ({"image.bin": "x"}, r"all that it finds is skipped: \.bin 1"),
        ({"blank.md": "\n\n"}, "1 document has no text: blank.md"),
        ({"a.json": "{", "b.md": ""}, "a.json: .*; 1 document has no text: b.md"),
    ],
)
def test_a_folder_without_text_says_so(empty_cli: Cli, files: dict[str, str], reason: str) -> None:
    """If there is nothing to search, the message gives the reason, and nothing is written."""
    empty_cli.write(files)
    done = empty_cli("ask", ".", QUESTION)
    assert done.code == 1
    assert re.fullmatch(f"lorebind: there is nothing to search in 'files': {reason}.*\n", done.err)
    assert not (empty_cli.root / ".lorebind").exists()


def test_documents_without_text_are_named(empty_cli: Cli) -> None:
    """Plan, ingest and `ask` tell in one line how many documents have no text, and name three."""
    source = "{ type: file_glob, path: '*.{md,html}' }"
    project = f"name: x\n{PARTS}knowledge_bases: [{{ id: d, sources: [{source}] }}]\n"
    empty_cli.write({"lorebind.yaml": project, "keys.md": DOCUMENTS["docs/keys.md"], "a.md": ""})
    note = "note: 1 document has no text: a.md\n"
    assert f"\n{note}" in empty_cli("knowledge", "plan").out
    assert empty_cli("ingest").out.count(note) == 1
    empty_cli.write({f"{name}.html": "<img src=x.png>" for name in "bcde"})
    note = "note: 5 documents have no text: a.md, b.html, c.html and 2 more\n"
    for _ in range(2):
        assert empty_cli("ask", ".", QUESTION).out.count(note) == 1
    (report,) = json.loads(empty_cli("ask", ".", QUESTION, "-o", "json").out)["ingests"]
    assert report["without_text"] == ["a.md", *(f"{name}.html" for name in "bcde")]


def test_a_document_is_no_folder(empty_cli: Cli) -> None:
    """If the path is a document, the message says which folder to give."""
    empty_cli.write(DOCUMENTS)
    done = empty_cli("ask", "docs/keys.md", QUESTION)
    assert (done.code, done.out) == (2, "")
    assert done.err == "lorebind: docs/keys.md is a file; give the folder that holds it: docs\n"


def test_a_folder_may_shrink(empty_cli: Cli) -> None:
    """Removing most files of a plain folder needs no permission; its index only mirrors it."""
    empty_cli.write({f"{number}.md": f"# Part {number}\n\nOn owls." for number in range(4)})
    assert "(4 new)" in empty_cli("ask", ".", "owls").out
    for number in range(3):
        (empty_cli.root / f"{number}.md").unlink()
    done = empty_cli("ask", ".", "owls")
    assert done.err == ""
    assert "Plan: 1 document (3 removed, 1 unchanged)" in done.out


def test_a_project_with_an_empty_knowledge_base(ready_cli: Cli) -> None:
    """A knowledge base without documents is reported, and the others still answer."""
    for path in (ready_cli.root / "rules").iterdir():
        path.unlink()
    done = ready_cli("ask", ".", QUESTION)
    assert (done.code, done.err) == (0, "")
    assert "failed source markdown_glob:rules/*.md: no file in" in done.out
    assert "[1] docs/keys.md" in done.out
