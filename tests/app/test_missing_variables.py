"""A project works without the variables of the parts that an operation does not use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import ConfigurationError, Project, TaskError
from lorebind_config.errors import MissingVariableError
from tests.bindings.helpers import line_of, write

from .helpers import Cli

PROJECT = """\
name: shop
embedders:
  - { id: words, provider: hashing }
  - { id: far, provider: openai, api_key: "{{ .env.NO_EMBEDDER }}" }
vector_dbs:
  - { id: file, type: sqlite }
  - { id: server, type: pgvector, config: { dsn: "{{ .secrets.NO_STORE }}" } }
knowledge_bases:
  - id: docs
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
  - id: embedded
    embedder: far
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
  - id: stored
    vector_db: server
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
  - id: mixed
    sources:
      - { type: markdown_glob, path: "docs/*.md" }
      - { type: markdown_glob, path: "{{ .env.NO_SOURCE }}/*.md", exclude: ["x/*"] }
  - id: ranked
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
    retrieval:
      rerank: { provider: onnx, model_path: "{{ .env.NO_RERANKER }}" }
knowledge: [{ id: docs }]
models:
  - { id: default, provider: extractive }
  - { id: paid, provider: openai, model: gpt-4o, api_key: "{{ .secrets.NO_MODEL }}" }
agents:
  - { id: clerk, model: paid }
workflows:
  - id: tell
    input: { kind: { type: string } }
    tasks:
      - { id: route, type: router, condition: workflow.input.kind, routes: { fine: fine },
          default: unset }
      - { id: fine, prompt: "Who?", final: true }
      - { id: unset, prompt: "{{ .env.NO_TASK }}", final: true }
  - id: stored
    checkpointer: { type: postgres, dsn: "{{ .env.NO_THREADS }}" }
    tasks: [{ id: say, prompt: "Who?" }]
"""

QUERIES = '{"id": "1", "text": "Who is the contact?"}\n'


def files(more: str = "") -> dict[str, str]:
    text = {"docs/a.md": "The contact is Ann.", "docs/b.md": "Returns take 30 days."}
    judged = {"q.jsonl": QUERIES, "r.tsv": "1\tdocs/a.md\t1\n"}
    return {"lorebind.yaml": PROJECT + more, **text, **judged}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path, files())


@pytest.fixture
def project(root: Path) -> Iterator[Project]:
    """Load the project; none of its variables is set."""
    with Project.load(root, environ={}) as project:
        yield project


def test_what_needs_no_variable_works(root: Path, project: Project) -> None:
    """Every operation works for parts that name no variable."""
    assert project.plan("docs").documents["added"] == 2
    assert project.ingest("docs").status == "completed"
    assert project.query("docs", "Who is the contact?")[0].text == "The contact is Ann."
    assert project.knowledge_base("docs").evaluate(root / "q.jsonl", root / "r.tsv")
    assert "Ann" in project.ask("Who is the contact?").text
    assert project.run("tell", {"kind": "fine"}).status == "completed"


@pytest.mark.parametrize(
    ("use", "part", "variable"),
    [
        (lambda shop: shop.ingest("embedded"), "embedder 'far'", "NO_EMBEDDER"),
        (lambda shop: shop.query("embedded", "Who?"), "embedder 'far'", "NO_EMBEDDER"),
        (lambda shop: shop.plan("stored"), "vector database 'server'", "NO_STORE"),
        (lambda shop: shop.query("stored", "Who?"), "vector database 'server'", "NO_STORE"),
        (
            lambda shop: (shop.ingest("ranked"), shop.query("ranked", "Who?", strategy="rerank")),
            "reranker 'onnx'",
            "NO_RERANKER",
        ),
        (lambda shop: shop.generate("Who?", agent="clerk"), "model 'paid'", "NO_MODEL"),
        (lambda shop: shop.run("stored"), "checkpointer 'postgres'", "NO_THREADS"),
    ],
)
def test_a_part_without_its_variable(
    root: Path, project: Project, use: Any, part: str, variable: str
) -> None:
    """The error names the variable, the part, the file and the line."""
    project.ingest("docs")
    with pytest.raises(MissingVariableError) as caught:
        use(project)
    (problem,) = caught.value.problems
    assert isinstance(caught.value, ConfigurationError)
    line = line_of(root / "lorebind.yaml", variable)
    assert (problem.file, problem.line) == ("lorebind.yaml", line)
    assert problem.message == f"{part}: variable {variable} is not set"


def test_a_source_without_its_variable_fails_alone(root: Path, project: Project) -> None:
    """Other sources are ingested, and the documents of the failed one stay."""
    with Project.load(root, environ={"NO_SOURCE": "more"}) as before:
        write(root, {"more/c.md": "More."})
        assert before.ingest("mixed").documents["added"] == 3
    report = project.ingest("mixed")
    assert (report.documents["unchanged"], report.documents["removed"]) == (2, 0)
    line = line_of(root / "lorebind.yaml", "NO_SOURCE")
    (reason,) = [source.reason for source in report.sources if source.reason]
    assert f"lorebind.yaml:{line}:" in reason
    assert "source 'markdown_glob': variable NO_SOURCE is not set" in reason
    assert len(project.documents("mixed")) == 3


def test_a_task_without_its_variable(root: Path, project: Project) -> None:
    """The error of a task names the variable, the file and the line."""
    project.ingest("docs")
    line = line_of(root / "lorebind.yaml", "NO_TASK")
    reason = rf"task 'unset' .* failed: lorebind\.yaml:{line}:\d+: variable NO_TASK is not set"
    with pytest.raises(TaskError, match=reason):
        project.run("tell", {"kind": "other"})


MORE = """\
extensions: [{ provider: python, class: "hooks:Audit", config: { key: "{{ .env.NO_HOOK }}" } }]
wrappers: [{ type: python, class: "hooks:wrap", config: { key: "{{ .env.NO_WRAPPER }}" } }]
"""


def test_extensions_and_wrappers_are_part_of_every_operation(tmp_path: Path) -> None:
    """They are made with the project, so it does not load without their variables."""
    for line, part in zip(MORE.splitlines(True), ("extension", "wrapper"), strict=True):
        root = write(tmp_path / part, files(line))
        with pytest.raises(MissingVariableError, match=rf"{part} '.*variable NO_\w+ is not set"):
            Project.load(root, environ={})


def test_commands_without_variables(empty_cli: Cli) -> None:
    """Commands need the variables of their parts; `doctor` names all and examines the others."""
    empty_cli.write(files())
    for command in (
        "ingest docs",
        "query docs -q x",
        "knowledge plan docs",
        "run tell -i kind=fine",
    ):
        assert empty_cli(*command.split()).code == 0, command
    done = empty_cli("ingest", "embedded")
    line = line_of(empty_cli.root / "lorebind.yaml", "NO_EMBEDDER")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"lorebind.yaml:{line}:")
    assert "embedder 'far': variable NO_EMBEDDER is not set" in done.err
    empty_cli.write(files(MORE))
    done = empty_cli("doctor", "--output", "json")
    assert done.code == 1
    variables = [name.rstrip('"') for name in done.out.split() if name.startswith("NO_")]
    named = {"EMBEDDER", "STORE", "SOURCE", "RERANKER", "MODEL", "TASK", "THREADS"}
    assert {*variables} == {f"NO_{name}" for name in named | {"HOOK", "WRAPPER"}}
    assert '"part": "knowledge base docs",\n      "status": "ok"' in done.out
