"""Steps between loading and chunking: code that redacts, enriches or splits documents."""

from __future__ import annotations

import json
import logging
import os
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from lorebind import ConfigurationError, Project, UsageError
from lorebind_config.checks.named_code import code_version
from lorebind_config.project_modules import PACKAGES
from lorebind_knowledge.loaders import base
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.marks import Anchor, Cue, Heading, Record, Table
from tests.bindings.helpers import write
from tests.knowledge.documents import pdf_bytes, xlsx_bytes

SECRET = "111-22-3333"
CODE = """\
import re

def redact(document, mark="[id]"):
    return document.replaced(r"\\d{3}-\\d{2}-\\d{4}", mark)

def enrich(document, uri):
    from dataclasses import replace
    return replace(document, metadata={**document.metadata, "folder": uri.partition("/")[0]})

def split(document):
    from dataclasses import replace
    starts = [heading.start for heading in document.headings] + [len(document.text)]
    return [
        replace(document.part(start, end), title=heading.title, metadata={"part": number})
        for number, (heading, start, end) in enumerate(zip(document.headings, starts, starts[1:]))
    ]

def leave_out(document):
    return []

def fail(document):
    raise ValueError(document.text)

def shorten(document):
    from dataclasses import replace
    return replace(document, text=document.text[2:])

def texts(document):
    return [document.text]

def nothing(document):
    pass

async def later(document):
    return document
"""
FILES = {
    "code.py": CODE,
    "hr/staff.md": f"---\nauthor: Ann {SECRET}\n---\n# Staff {SECRET}\n\nCall {SECRET} about pay."
    f"\n\n## Leave of {SECRET}\n\nLeave is 30 days.\n",
    "docs/public.md": "# Public\n\nOffices open at nine.\n",
}


def declared(*steps: Any, vector_db: dict[str, Any] | None = None) -> dict[str, Any]:
    source = {"type": "file_glob", "paths": ["docs/*", "hr/*"]}
    return {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "here", **(vector_db or {"type": "memory"})}],
        "knowledge_bases": [
            {
                "id": "docs",
                "embedder": "words",
                "sources": [source],
                "preprocess": {"steps": list(steps)},
            }
        ],
    }


def restart() -> None:
    """Forget the imported modules of projects, as the end of the process does."""
    for name in [name for name in sys.modules if name.startswith(PACKAGES)]:
        del sys.modules[name]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield write(tmp_path, FILES)
    restart()


def seen(project: Project) -> str:
    """Return everything that a project shows of its documents."""
    docs = project.knowledge_base("docs")
    documents = docs.documents()
    views = [
        documents,
        [docs.chunks(document.uri) for document in documents],
        [docs.fetch(document.uri) for document in documents if document.chunks],
        docs.find("a", regex=True),
        docs.query("Call about pay", top_k=9),
        docs.why("Call about pay", "hr/staff.md"),
        docs.fields(),
        docs.stats(),
        docs.runs(),
        docs.plan(),
        project.ask("Whom do I call about pay?"),
    ]
    return repr(views) + json.dumps(asdict(docs.stats()), default=str)


def rows(dsn: str) -> bytes:
    """Return all rows of all tables of the schema."""
    query = "select tablename from pg_tables where schemaname = current_schema()"
    with psycopg.connect(dsn) as db:
        tables = [SQL("table {}").format(Identifier(name)) for (name,) in db.execute(query)]
        return repr([db.execute(table).fetchall() for table in tables]).encode()


def test_what_a_step_removes_is_nowhere(
    root: Path, vector_db: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """No text that a step removes is stored, packed, logged or shown, from any format."""
    (root / "hr" / "scan.pdf").write_bytes(pdf_bytes([f"Page of {SECRET}"], title=f"T {SECRET}"))
    (root / "hr" / "pay.xlsx").write_bytes(xlsx_bytes({f"S {SECRET}": [["Name"], [SECRET]]}))
    step = {"function": "code:redact"}
    caplog.set_level(logging.DEBUG)
    with Project.build(declared(step, vector_db=vector_db), root=root) as project:
        report = project.ingest("docs")
        assert (report.status, report.documents["added"]) == ("completed", 4)
        output = seen(project)
        project.knowledge_base("docs").pack(root / "docs.pack")
    assert "Staff [id]" in output
    assert "sheet S [id]" in output
    assert SECRET not in output + repr(report) + caplog.text
    with zipfile.ZipFile(root / "docs.pack") as pack:
        packed = b"".join(pack.read(name) for name in pack.namelist())
    files = [file for file in (root / ".lorebind").rglob("*") if file.is_file()]
    stored = b"".join(file.read_bytes() for file in files)
    if vector_db["type"] == "pgvector":
        stored += rows(os.environ["SHOP_DSN"])
    for data in (packed, stored):
        assert b"Call [id] about pay" in data
        assert SECRET.encode() not in data


def test_only_documents_that_went_through_changed_code_are_done_again(root: Path) -> None:
    """New bytes of a function, as a restart sees them, concern the documents of its step alone."""
    staff = {"function": "code:redact", "documents": ["hr/**"]}
    data = declared(staff, vector_db={"type": "sqlite"})
    with Project.build(data, root=root) as project:
        assert project.ingest("docs").documents["added"] == 2
        (root / "code.py").write_text(CODE.replace("[id]", "[number]"), encoding="utf-8")
        assert project.plan("docs").documents["unchanged"] == 2  # it still runs the old code
    restart()
    with Project.build(data, root=root) as project:
        plan = project.plan("docs")
        assert (plan.reprocessed, plan.documents["unchanged"]) == (["hr/staff.md"], 1)
        report = project.ingest("docs", plan=plan)
        assert report.documents["updated"] == 1
        assert report.texts_embedded == plan.texts_to_embed == 1
        assert "Staff [number]" in seen(project)
        again = project.plan("docs")
        assert (again.documents["unchanged"], again.reprocessed) == (2, [])
    for change in ({"version": "2"}, {"config": {"mark": "[number]"}}, {"documents": []}):
        changed = declared({**staff, **change}, vector_db={"type": "sqlite"})
        with Project.build(changed, root=root) as project:
            plan = project.plan("docs")
            others = ["docs/public.md"] if change == {"documents": []} else ["hr/staff.md"]
            assert (plan.reprocessed, plan.texts_to_embed) == (others, 0)


def test_steps_enrich_and_split_in_their_order(root: Path) -> None:
    """Parts have their own titles and metadata, and keep their places in the document."""
    steps = [{"function": f"code:{name}"} for name in ("redact", "split", "enrich")]
    with Project.build(declared(*steps), root=root) as project:
        project.ingest("docs")
        chunks = project.knowledge_base("docs").chunks("hr/staff.md")
        assert [(chunk.metadata["title"], chunk.metadata["part"]) for chunk in chunks] == [
            ("Staff [id]", 0),
            ("Leave of [id]", 1),
        ]
        assert [chunk.metadata["line_start"] for chunk in chunks] == [4, 8]
        (leave,) = project.query("docs", "leave", filters={"part": 1, "folder": "hr"})
        assert leave.text.startswith("## Leave of [id]")


def test_separate_texts_of_a_document_have_places_of_their_own(root: Path) -> None:
    """A step may return documents with new texts; they are read one after the other."""

    def records(document: LoadedDocument) -> list[LoadedDocument]:
        return [LoadedDocument(f"Record {name} of it.", name) for name in ("one", "two", "three")]

    with Project.build(
        declared({"function": records, "documents": ["hr/*"]}), root=root
    ) as project:
        project.ingest("docs")
        docs = project.knowledge_base("docs")
        chunks = docs.chunks("hr/staff.md")
        assert [(chunk.metadata["title"], chunk.metadata["line_start"]) for chunk in chunks] == [
            ("one", 1),
            ("two", 3),
            ("three", 5),
        ]
        assert [passage.lines[0][0] for passage in docs.find("Record").passages] == [1, 3, 5]
        (best, *_) = docs.query("Record two", neighbours=1)
        assert best.text == "Record one of it.\nRecord two of it.\nRecord three of it."


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("fail", "hr/staff.md: the step 'code:fail' failed: ValueError in code.py, line 22"),
        ("shorten", "returned headings that are at other places in its text"),
        ("texts", "returned a list with other objects; expected a LoadedDocument or a list"),
        ("nothing", "returned a NoneType; expected a LoadedDocument or a list"),
    ],
)
def test_a_document_whose_step_fails_fails_alone(root: Path, function: str, reason: str) -> None:
    """The reason names the step and its line, and quotes nothing of the document."""
    (root / "hr" / "scan.pdf").write_bytes(pdf_bytes([f"Page of {SECRET}"]))
    step = {"function": f"code:{function}", "documents": ["hr/*"]}
    with Project.build(declared(step), root=root) as project:
        report = project.ingest("docs")
        assert report.documents["added"] == 1 + (function == "shorten")  # the PDF has no heading
        failure = next(entry for entry in report.failures if entry.uri == "hr/staff.md")
        assert reason in failure.reason
        assert SECRET not in repr(report) + repr(project.knowledge_base("docs").runs())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"title": None}, "a NoneType as title"),
        ({"title": "x" * 1001}, "a title of more than 1000 characters"),
        ({"text": "a\0b", "headings": []}, "a text with characters that databases do not accept"),
        ({"metadata": ["x"]}, "metadata that is not a mapping"),
        ({"body_end": 10**6}, "a text from 32 to 1000000 of 125 characters"),
        ({"headings": None}, "headings that are not Heading with the types of its fields"),
        ({"headings": [[0, 1, "x"]]}, "headings that are not Heading"),
        ({"headings": [Heading(0, "1", "x")]}, "headings that are not Heading"),  # type: ignore[arg-type]
        ({"cues": [Cue(0, 10**6, 0, 1)]}, "cues that are at other places in its text"),
        ({"tables": [Table(0, 9, 8)]}, "tables that are at other places in its text"),
        ({"tables": [Table(0, 8, 10**6)]}, "tables that are at other places in its text"),
        ({"records": [Record(0, {1: 2})]}, "metadata that is not a mapping"),  # type: ignore[dict-item]
        ({"anchors": [Anchor(0, "sheet", "a\0")]}, "an anchor 1 with characters that databases"),
        ({"anchors": [Anchor(0, "page", "iv")]}, "a page named 'iv', which is not a number"),
        ({"scanned": None}, "scanned that are not Scan"),
    ],
)
def test_malformed_results_are_refused(root: Path, changes: dict[str, Any], reason: str) -> None:
    """A result that no store or citation could hold fails its document, and no others."""

    def odd(document: LoadedDocument) -> LoadedDocument:
        return replace(document, **changes)

    step = {"function": odd, "documents": ["hr/*"]}
    with Project.build(declared(step), root=root) as project:
        report = project.ingest("docs")
        assert report.documents["added"] == 1
        assert reason in report.failures[0].reason


@pytest.mark.parametrize("are_parts", [True, False])
def test_many_parts_share_what_is_computed(
    root: Path, monkeypatch: pytest.MonkeyPatch, are_parts: bool
) -> None:
    """The lines of a document are looked for once, however many parts or texts it is split into."""
    computed = []
    line_ends = base.line_ends
    monkeypatch.setattr(
        base, "line_ends", lambda text: computed.append(len(text)) or line_ends(text)
    )

    def split(document: LoadedDocument) -> list[LoadedDocument]:
        if are_parts:
            return [document.part(at, at + 10) for at in range(0, 1000, 10)]
        return [LoadedDocument(f"Record {number}", "Record") for number in range(100)]

    (root / "hr" / "staff.md").write_text("Some words of the staff.\n" * 100, encoding="utf-8")
    with Project.build(declared({"function": split, "documents": ["hr/*"]}), root=root) as project:
        assert project.ingest("docs").chunks["total"] == 101
    assert len(computed) == 2  # and once for the other document


def test_a_document_can_be_left_out(root: Path) -> None:
    """An empty list leaves a document without passages; reports name it, and it is read once."""
    (root / "hr" / "list.pdf").write_bytes(pdf_bytes(["Staff", ""]))
    project_of = declared({"function": "code:leave_out", "documents": ["hr/*"]})
    project_of["knowledge_bases"][0]["sources"][0]["ocr"] = {"when": "never"}
    with Project.build(project_of, root=root) as project:
        assert project.ingest("docs").without_text == ["hr/list.pdf", "hr/staff.md"]
        assert SECRET not in seen(project)
        assert project.ingest("docs").documents["unchanged"] == 3


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"function": "code:missing"}, "step: module 'code' has no 'missing'"),
        ({"function": "code:later"}, "the step code:later is async; write it as def"),
        (
            {"function": "code:redact", "config": {"marks": "x"}},
            "the step code:redact: got an unexpected",
        ),
        ({"function": "code:re"}, "code:re is a module; expected a function from the project"),
    ],
)
def test_wrong_functions_are_refused(root: Path, step: dict[str, Any], message: str) -> None:
    """A step that cannot be made stops the ingest before it reads anything."""
    project = Project.build(declared(step), root=root)
    with project, pytest.raises(UsageError, match=message):
        project.ingest("docs")


def test_functions_without_a_source_have_one_version(tmp_path: Path) -> None:
    """That of their code, whatever else refers to its parts."""

    scope = {"__name__": "nowhere"}
    exec("def step(document):\n    return document.part(0, 123456), 'some text'", scope)
    function: Any = scope["step"]
    version = code_version("nowhere:step", function, tmp_path)
    parts = [*function.__code__.co_consts]
    assert code_version("nowhere:step", function, tmp_path) == version
    assert 123456 in parts


def test_wrong_declarations_have_their_place(root: Path) -> None:
    """A step without a function, or of an unknown type, is refused when the file is read."""
    with pytest.raises(ConfigurationError, match="missing key 'function'"):
        Project.build(declared({"documents": ["*"]}), root=root)
    with pytest.raises(ConfigurationError, match="step type 'funktion' is not supported"):
        Project.build(declared({"type": "funktion"}), root=root)
