"""Embedders and vector databases whose dimensions can be compared before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebind_config.errors import ConfigurationError
from lorebind_config.reading.loading import load_project

ENVIRON = {"KEY": "k", "DSN": "postgresql://localhost/x"}
SOURCES = "sources: [{ type: markdown_glob, path: a.md }]"


def pgvector(dimension: str) -> str:
    return f'{{ id: db, type: pgvector, config: {{ dsn: "{{{{ .env.DSN }}}}"{dimension} }} }}'


def qdrant(dimension: str) -> str:
    return f"{{ id: db, type: qdrant, config: {{ path: data{dimension} }} }}"


def load(root: Path, embedder: str, vector_db: str, kb: str = "", more: str = "") -> list[str]:
    (root / "lorebind.yaml").write_text(
        f"name: p\nembedders:\n  - {embedder}\nvector_dbs:\n  - {vector_db}\n"
        f"knowledge_bases:\n  - {{ id: docs, {SOURCES}{kb} }}\n{more}"
    )
    try:
        load_project(root, environ=ENVIRON)
    except ConfigurationError as error:
        return [str(problem) for problem in error.problems]
    return []


EMBEDDERS = [
    ("{ id: e, provider: local }", 384),
    ("{ id: e, provider: hashing }", 256),
    ("{ id: e, provider: hashing, config: { dimension: 64 } }", 64),
    ('{ id: e, provider: openai, api_key: "{{ .env.KEY }}" }', 1536),
    ('{ id: e, provider: openai, model: text-embedding-3-large, api_key: "{{ .env.KEY }}" }', 3072),
    (
        '{ id: e, provider: openai, api_key: "{{ .env.KEY }}", config: { dimension: 512 } }',
        512,
    ),
]


@pytest.mark.parametrize("vector_db", [pgvector, qdrant])
@pytest.mark.parametrize(("embedder", "dimension"), EMBEDDERS)
def test_a_mismatch_is_a_problem_of_the_knowledge_base(
    tmp_path: Path, embedder: str, dimension: int, vector_db: object
) -> None:
    """The message gives both dimensions and the fix, and a project with the fix loads."""
    assert callable(vector_db)
    text = vector_db(", dimension: 77")
    column = text.index("dimension:") + 5
    assert load(tmp_path, embedder, text) == [
        f"lorebind.yaml:7:5: knowledge base 'docs': embedder 'e' makes vectors of dimension "
        f"{dimension}, vector database 'db' is declared with 77; "
        f"write dimension: {dimension} at lorebind.yaml:5:{column}"
    ]
    assert load(tmp_path, embedder, vector_db(f", dimension: {dimension}")) == []


@pytest.mark.parametrize(
    ("embedder", "vector_db"),
    [
        ("{ id: e, provider: local }", pgvector("")),
        ("{ id: e, provider: local }", qdrant("")),
        ("{ id: e, provider: local }", "{ id: db, type: memory }"),
        ("{ id: e, provider: local }", "{ id: db, type: sqlite }"),
        ("{ id: e, provider: langchain, class: 'a:B' }", pgvector(", dimension: 77")),
        (
            '{ id: e, provider: openai, model: of-their-own, api_key: "{{ .env.KEY }}" }',
            qdrant(", dimension: 77"),
        ),
    ],
)
def test_nothing_is_said_of_what_is_not_known(
    tmp_path: Path, embedder: str, vector_db: str
) -> None:
    """If the embedder or the database declares no dimension, nothing is reported."""
    assert load(tmp_path, embedder, vector_db) == []


def test_the_ones_it_names_are_compared(tmp_path: Path) -> None:
    """The embedder and database are found by id; the problem is at `vector_db` if it is given."""
    embedder = "{ id: a, provider: local }\n  - { id: b, provider: hashing }"
    database = f"{{ id: m, type: memory }}\n  - {qdrant(', dimension: 256')}"
    assert load(tmp_path, embedder, database, ", embedder: b, vector_db: db") == []
    (problem,) = load(tmp_path, embedder, database, ", vector_db: db")
    column = f"  - {{ id: docs, {SOURCES}, vector_db".index("vector_db") + 1
    assert problem.startswith(f"lorebind.yaml:9:{column}: knowledge base 'docs': embedder 'a' ")


def test_defaults_are_compared_too(tmp_path: Path) -> None:
    """The default embedder is compared too."""
    (tmp_path / "lorebind.yaml").write_text(
        f"name: p\nvector_dbs: [{qdrant(', dimension: 77')}]\n"
        f"knowledge_bases: [{{ id: docs, {SOURCES} }}]\n"
    )
    with pytest.raises(ConfigurationError, match="embedder 'local' makes vectors of dimension 384"):
        load_project(tmp_path, environ=ENVIRON)


def test_knowledge_bases_of_workflows_are_compared(tmp_path: Path) -> None:
    """Knowledge bases of a workflow are compared like those of the project."""
    workflow = (
        f"workflows:\n  - id: w\n    tasks: [{{ id: t, prompt: x }}]\n    knowledge_bases:\n"
        f"      - {{ id: own, {SOURCES}, embedder: e2 }}\n"
    )
    embedder = "{ id: e, provider: hashing }\n  - { id: e2, provider: local }"
    (problem,) = load(tmp_path, embedder, qdrant(", dimension: 256"), more=workflow)
    assert problem.startswith("lorebind.yaml:13:9: knowledge base 'own': embedder 'e2' ")


def test_references_that_lead_nowhere_are_said_once(tmp_path: Path) -> None:
    """An unknown embedder or database has no dimension to compare."""
    embedder = "{ id: e, provider: local }"
    for kb in (", embedder: nobody", ", vector_db: nobody"):
        (problem,) = load(tmp_path, embedder, qdrant(", dimension: 77"), kb)
        assert "dimension" not in problem
