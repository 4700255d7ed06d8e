"""`lorebind ask`: from a folder to a cited answer, with no configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import docx
import pytest

from tests.app.missing_packages import hide
from tests.bindings.helpers import PARTS
from tests.knowledge.documents import pdf_bytes, pptx_bytes, saved, xlsx_bytes
from tests.knowledge.folders import shut

from .forked_python import ForkedPython
from .helpers import DOCUMENTS, PROJECT, Cli, run_forked

QUESTION = "How often must the keys be rotated?"
AS_TEXT = "to read them as plain text, list them in as_text of the source"
NEEDS_YAML = (
    "note: the settings of a source belong in a lorebind.yaml; to create one, run: lorebind init"
)
ANY_FILE = f"""
name: x
{PARTS}
knowledge_bases: [{{ id: d, sources: [{{ type: file_glob, path: "docs/*" }}] }}]
knowledge: [{{ id: d }}]
"""


def test_a_folder_answers(empty_cli: Cli, forked: ForkedPython) -> None:
    """A plain folder is indexed and answers with passages, citations and the prompt's size."""
    empty_cli.write(DOCUMENTS | {"notes.txt": "Lunch is at noon.\n", "ignored.bin": "x"})
    done = run_forked(forked, empty_cli.root, "ask", ".", QUESTION)
    assert (done.code, done.err) == (0, "")
    assert "Plan: 4 documents (4 new), 4 chunks, 4 to embed, 0 cached" in done.out
    assert "> Rotate the keys with the rotate command every ninety days. [1]" in done.out
    assert "[1] docs/keys.md, lines 1-3" in done.out
    assert f"\nskipped 1 file:\n  .bin 1 (ignored.bin); {AS_TEXT}\n{NEEDS_YAML}\n" in done.out
    assert re.search(r"Prompt: \d+ tokens \(o200k_base, exact\), \d passages", done.out)
    assert (empty_cli.root / ".lorebind/.gitignore").read_text() == "*\n"

    again = empty_cli("ask", ".", QUESTION)
    assert "4 unchanged" in again.out
    assert "0 to embed" in again.out
    assert "0 embedded" not in again.out, "the plan has said that nothing changed"
    assert "\nskipped 1 file:\n" in again.out

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
    """If no passage is likely to answer, the nearest ones are printed, and the exit code is 1."""
    empty_cli.write(DOCUMENTS)
    done = empty_cli("ask", ".", "What is the capital of Mongolia?")
    assert (done.code, done.err) == (1, "")
    assert "the match is weak: the best passage of knowledge base 'files'" in done.out
    assert "match this question only weakly" in done.out
    assert "\n> " in done.out


def test_a_project_is_asked_with_what_it_declares(ready_cli: Cli) -> None:
    """A project's own bindings and embedders are used, and its knowledge bases are ingested."""
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


def test_a_mistake_in_declared_filters_is_shown(ready_cli: Cli, forked: ForkedPython) -> None:
    """A key of declared filters that no document has is reported on standard error."""
    mistaken = PROJECT.replace("{ id: docs }]\na", "{ id: docs, filters: { titel: x } }]\na")
    assert mistaken != PROJECT
    ready_cli.write({"lorebind.yaml": mistaken})
    done = run_forked(forked, ready_cli.root, "ask", ".", QUESTION)
    assert "'titel', which the filter names; did you mean 'title'" in done.err


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


@pytest.mark.usefixtures("without_ocr")
def test_pages_without_text_are_counted(empty_cli: Cli, tmp_path: Path) -> None:
    """Plan, ingest, `ask` and the list of documents say how many pages have no text, if any."""
    empty_cli.write({"docs/keys.md": DOCUMENTS["docs/keys.md"], "lorebind.yaml": ANY_FILE})
    assert "textless" not in empty_cli("ingest").out + empty_cli("knowledge", "documents", "d").out
    (tmp_path / "docs/scan.pdf").write_bytes(pdf_bytes(["Doors are locked.", "", "", ""]))
    note = "note: 3 pages of 1 document without text: docs/scan.pdf (3); "
    for arguments in (["knowledge", "plan"], ["ingest"], ["ask", ".", QUESTION]):
        assert empty_cli(*arguments).out.count(note) == 1
    (tmp_path / "docs/more.pdf").write_bytes(pdf_bytes(["Windows are closed.", ""]))
    note = "note: 4 pages of 2 documents without text: docs/more.pdf (1), docs/scan.pdf (3); "
    assert empty_cli("ask", ".", QUESTION).out.count(note) == 1
    listed = empty_cli("knowledge", "documents", "d").out
    assert re.search(r"uri +title +state +chunks +without text +origin +id\n", listed)
    assert re.search(r"docs/scan.pdf +scan +ready +1 +3 pages +source ", listed)


@pytest.mark.parametrize(
    ("chunking", "advised"),
    [("", False), ("size: 700", False), ("size: 3000", True), ("size: 900, unit: tokens", True)],
)
def test_only_large_chunks_are_advised_to_be_smaller(
    empty_cli: Cli, chunking: str, advised: bool
) -> None:
    """Chunks of the default size get no advice, even if the embedder does not read all of them."""
    declared = f"chunking: {{ {chunking} }}, " if chunking else ""
    bases = f"[{{ id: d, {declared}sources: [{{ type: file_glob, path: '*.md' }}] }}]"
    empty_cli.write({"lorebind.yaml": f"name: x\nknowledge_bases: {bases}\n", "a.md": "£ " * 2000})
    report = json.loads(empty_cli("knowledge", "ingest", "d", "-o", "json").out)
    assert report["texts_truncated"] > 0
    assert (
        any("longer than the embedder reads" in notice for notice in report["notices"]) is advised
    )


def test_what_is_skipped_can_be_read(empty_cli: Cli) -> None:
    """Each line about skipped files says what reads them, and following that reads them."""
    names = ("a.conf5", "build/b.md", ".notes/c.md", "1.zzz", "2.zzz", "3.zzz", "4.zzz")
    empty_cli.write({name: f"# Keys\n\nRotate {name}.\n" for name in names} | DOCUMENTS)
    empty_cli.write({".gitignore": "build/\n"})
    (empty_cli.root / "d.zip").write_bytes(b"PK\x03\x04\0")
    out = empty_cli("ask", ".", QUESTION).out
    skipped = f"""
skipped 6 files and 2 folders:
  .zip 1 (d.zip)
  .zzz 4, .conf5 1 (1.zzz, 2.zzz, 3.zzz and 2 more); {AS_TEXT}
  hidden 1 (.notes/); to read one, name it in paths of the source
  .gitignore 1 (build/); to read them, set respect_gitignore: false for the source
{NEEDS_YAML}
"""
    assert skipped in out
    assert empty_cli("init").code == 0
    source = (
        'type: file_glob, paths: ["**/*", ".notes"], respect_gitignore: false, '
        'as_text: ["*.zzz", "*.conf5"]'
    )
    project = f"name: all\nknowledge_bases: [{{ id: docs, sources: [{{ {source} }}] }}]\n"
    empty_cli.write({"lorebind.yaml": project})
    out = empty_cli("ingest").out
    assert "skipped 1 file:\n  .zip 1 (d.zip)\n" in out
    assert "failed" not in out.partition("docs: ")[2]
    assert NEEDS_YAML not in out
    read = empty_cli("knowledge", "documents", "docs").out
    assert all(f"\n{name} " in read for name in names)


def test_nothing_can_be_set_for_a_picture(empty_cli: Cli) -> None:
    """If no setting reads the skipped files, nothing is said about settings."""
    empty_cli.write(DOCUMENTS)
    (empty_cli.root / "a.gif").write_bytes(b"GIF89a\0\0")
    out = empty_cli("ask", ".", QUESTION).out
    assert "\nskipped 1 file:\n  .gif 1 (a.gif)\nPassages of files" in out


def test_a_setting_in_a_failure_needs_a_project(empty_cli: Cli) -> None:
    """If a file is too large in a plain folder, a note says how to write the file of settings."""
    empty_cli.write({"docs/large.txt": "x" * (4 * 1024**2 + 1), "docs/a.md": "# Keys"})
    out = empty_cli("ask", "docs", QUESTION).out
    assert "failed document large.txt: is larger than 4 MiB; the limit is max_bytes of its" in out
    assert f"\n{NEEDS_YAML} docs\n" in out


def test_a_missing_extra_is_printed_once(
    empty_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra that a format needs is printed once, with its documents, in every list."""
    empty_cli.write({"lorebind.yaml": ANY_FILE, "docs/keys.md": DOCUMENTS["docs/keys.md"]})
    for name in "abcde":
        (tmp_path / f"docs/{name}.xlsx").write_bytes(xlsx_bytes({"Prices": [["key", 12]]}))
    (tmp_path / "docs/f.pptx").write_bytes(pptx_bytes(("Keys", "Rotate them.")))
    hide(["openpyxl", "pptx"], tmp_path / "missing")
    monkeypatch.syspath_prepend(tmp_path / "missing")
    install = "install it with: pip install 'lorebind[office]'"
    sheets = f".xlsx files needs the package 'openpyxl'; {install}: docs/a.xlsx, docs/b.xlsx, "
    slides = f".pptx files needs the package 'pptx'; {install}: docs/f.pptx\n"
    for command, word in (("plan", "unreadable"), ("ingest", "failed"), ("documents", "failed")):
        out = empty_cli("knowledge", command, "d").out
        assert f"\n{word} 5 documents: reading {sheets}docs/c.xlsx and 2 more\n" in out
        assert f"\n{word} 1 document: reading {slides}" in out
        assert out.count(install) == 2
    (tmp_path / "docs/keys.md").unlink()
    assert empty_cli("ask", "docs", QUESTION).err.count(install) == 2


def test_word_is_located_by_its_headings(empty_cli: Cli, tmp_path: Path) -> None:
    """The command line locates a passage of Word like its citation: by the headings, once."""
    empty_cli.write({"lorebind.yaml": ANY_FILE, "docs/keys.md": DOCUMENTS["docs/keys.md"]})
    document = docx.Document()
    for text, style in (("Chapter 4", "Heading 1"), ("Doors", "Heading 2"), ("Lock them.", None)):
        document.add_paragraph(text, style=style)
    (tmp_path / "docs/guide.docx").write_bytes(saved(document))
    empty_cli("ingest")
    place = "docs/guide.docx, Chapter 4 › Doors"
    printed = empty_cli("query", "d", "-q", "lock doors", "--top-k", "1").out
    assert re.search(rf"(?m)^ 1 .* {place}$", printed)
    assert f"\n{place}\n" in "\n" + empty_cli("knowledge", "chunks", "d", "docs/guide.docx").out


def test_skipped_files_are_named_if_nothing_is_left(empty_cli: Cli) -> None:
    """If all files of a folder are skipped, they are counted too."""
    empty_cli.write({"a.conf5": "Rotate the keys."})
    done = empty_cli("ask", ".", QUESTION)
    assert f"skipped 1 file:\n  .conf5 1 (a.conf5); {AS_TEXT}\n{NEEDS_YAML}\n" in done.out
    assert done.err.endswith("all that it finds is skipped: .conf5 1\n")


def test_an_older_format_is_converted(empty_cli: Cli) -> None:
    """Skipped files of Word 97 come with the command that converts them."""
    empty_cli.write({**DOCUMENTS, "old.doc": "x"})
    done = empty_cli("ask", ".", QUESTION)
    how = "for example with LibreOffice: soffice --headless --convert-to docx FILE"
    assert f"\n  convert .doc files to .docx, {how}\n" in done.out


def test_one_document_is_asked(empty_cli: Cli) -> None:
    """If the path is a document, only this one is read, whatever its name and `.gitignore` say."""
    name = "docs/keys [new] {1}.md"
    ignored = {"docs/.gitignore": "keys*\n", "docs/lorebind.yaml": "name: other\n"}
    empty_cli.write({name: DOCUMENTS["docs/keys.md"], "docs/b.md": "Keys.", **ignored})
    done = empty_cli("ask", name, QUESTION, "-o", "json")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert data["ingests"][0]["documents"]["added"] == 1
    assert [citation["uri"] for citation in data["citations"]] == ["keys [new] {1}.md"]
    nothing = empty_cli("ask", "none.md", QUESTION)
    assert (
        nothing.err == "lorebind: none.md is neither a folder nor a file; give one with documents\n"
    )


def test_without_vectors(empty_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--no-vectors` embeds nothing; an ask that will take minutes says that it is faster."""
    empty_cli.write(DOCUMENTS)
    done = empty_cli("ask", ".", QUESTION, "--no-vectors")
    assert (done.code, done.err) == (0, "")
    assert "0 to embed" in done.out
    assert "[1] docs/keys.md, lines 1-3" in done.out
    assert "minutes" not in done.out
    foreign = empty_cli("ask", ".", "What is the capital of Mongolia?", "--no-vectors")
    assert foreign.code == 1
    monkeypatch.setattr("lorebind.cli.ingesting._LONG", 0)
    again = empty_cli("ask", ".", QUESTION)
    assert "3 to embed" in again.out, "the vectors are made when they are needed"
    assert "note: this will take about" in again.out
    assert "--no-vectors" in again.out
    assert "--no-vectors" not in empty_cli("ask", ".", QUESTION).out


def test_a_project_declares_whether_it_has_vectors(ready_cli: Cli) -> None:
    done = ready_cli("ask", ".", QUESTION, "--no-vectors")
    assert done.code != 0
    assert "write `embedder: none` at the knowledge base instead" in done.err


def test_a_folder_that_cannot_be_listed(empty_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that became unreadable is named, and its documents are still found."""
    empty_cli.write(DOCUMENTS)
    assert empty_cli("ask", ".", QUESTION).code == 0
    shut(empty_cli.root / "docs", monkeypatch)
    done = empty_cli("ask", ".", QUESTION)
    assert (done.code, done.err) == (0, "")
    assert (
        "\nfailed folder docs/: cannot be listed: Permission denied; make it readable" in done.out
    )
    assert "[1] docs/keys.md, lines 1-3" in done.out


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
