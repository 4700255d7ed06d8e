"""Embedders, vector databases and knowledge bases in separate files, found by `autoload`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebind_config.editing.applying import apply_resources
from lorebind_config.editing.resources import export_resources
from lorebind_config.editing.yaml_text import as_yaml
from lorebind_config.errors import ConfigurationError, UsageError
from lorebind_config.reading.loading import load_project
from lorebind_config.trust import read_demands

FILES = {
    "lorebind.yaml": """\
name: demo
knowledge_bases:
  - { id: notes, embedder: words, sources: [{ type: file_glob, path: "notes/*" }] }
knowledge: [{ id: docs }]
autoload: { include: ["parts/*.yaml"] }
""",
    "parts/docs.yaml": """\
# The handbook.
resource: knowledge_base
id: docs
embedder: words
vector_db: scratch
sources:
  - { type: markdown_glob, path: "docs/*.md" }
retrieval: { top_k: 3 }
""",
    "parts/words.yaml": "resource: embedder\nid: words\nprovider: hashing\n",
    "parts/scratch.yaml": "resource: vector_db\nid: scratch\ntype: memory\n",
}


def write(root: Path, **changed: str) -> Path:
    files = FILES | {f"parts/{name}.yaml": text for name, text in changed.items()}
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


def problems(root: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_project(root)
    return [str(problem) for problem in caught.value.problems]


def test_they_are_as_those_of_the_project(tmp_path: Path) -> None:
    """They come after the project's own, may refer to each other, and have their own positions."""
    loaded = load_project(write(tmp_path))
    assert [kb.id for kb in loaded.project.knowledge_bases] == ["notes", "docs"]
    kb, scope = loaded.knowledge_base("docs")
    assert (kb.embedder, kb.vector_db, scope) == ("words", "scratch", "project")
    assert str(kb.position()) == "parts/docs.yaml:2:1"
    assert str(kb.retrieval.position("top_k")) == "parts/docs.yaml:8:14"
    assert loaded.embedder().id == "words"
    assert loaded.vector_db().id == "scratch"
    exported = export_resources(loaded)
    assert [knowledge_base["id"] for knowledge_base in exported["knowledge_bases"]] == [
        "notes",
        "docs",
    ]
    assert exported["embedders"] == [{"id": "words", "provider": "hashing"}]


def test_what_has_sources_is_a_knowledge_base(tmp_path: Path) -> None:
    """A file with `sources` needs no `resource`, like the file of a workflow with `tasks`."""
    text = FILES["parts/docs.yaml"].replace("resource: knowledge_base\n", "")
    assert load_project(write(tmp_path, docs=text)).knowledge_base("docs")[0].embedder == "words"


@pytest.mark.parametrize(
    ("name", "old", "new", "lines"),
    [
        (
            "docs",
            "id: docs",
            "id: notes",
            [
                "lorebind.yaml:4:15: project 'demo' binds unknown knowledge base 'docs'; known: "
                "notes",
                "parts/docs.yaml:3:1: knowledge base id 'notes' is used twice; it is first used "
                "at lorebind.yaml:3:7",
            ],
        ),
        (
            "docs",
            "embedder: words",
            "embeder: words",
            [
                "parts/docs.yaml:4:1: unknown key 'embeder'; did you mean 'embedder'; known: "
                "chunking, description, embedder, id, ingest, keep, language, metadata, "
                "preprocess, retrieval, sources, sparse, tool_filters, vector_db, weak_below"
            ],
        ),
        (
            "docs",
            "vector_db: scratch",
            "vector_db: skratch",
            [
                "parts/docs.yaml:5:1: knowledge base 'docs' uses unknown vector database "
                "'skratch'; did you mean 'scratch'; known: scratch"
            ],
        ),
        (
            "docs",
            "top_k: 3",
            "top_k: 99",
            ["parts/docs.yaml:8:14: top_k is 99; expected 1 to 50"],
        ),
        (
            "words",
            "hashing",
            "hashin",
            [
                "parts/words.yaml:3:1: embedder provider 'hashin' is not supported; did you mean "
                "'hashing'; known: fastembed, hashing, langchain, local, none, openai"
            ],
        ),
        (
            "words",
            "resource: embedder",
            "resource: embeder",
            [
                "parts/words.yaml:1:1: resource 'embeder' is not supported; did you mean "
                "'embedder'; known: agent, embedder, knowledge_base, "
                "sparse_embedder, vector_db, workflow"
            ],
        ),
        (
            "docs",
            "resource: knowledge_base",
            "resource: tool",
            [
                "parts/docs.yaml:2:1: resource 'tool' is not supported; known: agent, embedder, "
                "knowledge_base, sparse_embedder, vector_db, workflow"
            ],
        ),
        (
            "words",
            "id: words",
            "id: words\nid: w",
            [
                "parts/words.yaml:3:1: the key 'id' is written twice; it is first written at "
                "parts/words.yaml:2:1"
            ],
        ),
        (
            "scratch",
            "type: memory",
            "type: [",
            [
                "parts/scratch.yaml:4:1: this is not YAML: expected the node content, but found "
                "'<stream end>'"
            ],
        ),
    ],
)
def test_problems_name_the_file_and_the_line(
    tmp_path: Path, name: str, old: str, new: str, lines: list[str]
) -> None:
    """Each mistake is reported once, and a broken file causes no unknown references."""
    text = FILES[f"parts/{name}.yaml"]
    assert text.count(old) == 1
    assert problems(write(tmp_path, **{name: text.replace(old, new)})) == lines


def test_what_they_ask_for_is_asked_of_the_user(tmp_path: Path) -> None:
    """A variable in such a file is a demand of the project."""
    text = 'resource: embedder\nid: words\nprovider: openai\napi_key: "{{ .env.KEY }}"\n'
    (demand,) = read_demands(write(tmp_path, words=text)).all
    assert str(demand) == (
        "parts/words.yaml:4:1: embedder 'words' wants to read the variable KEY, and send it to "
        "api.openai.com"
    )


def test_apply_does_not_change_such_a_file(tmp_path: Path) -> None:
    """The error names the file of the resource. Unchanged and new resources are applied."""
    root = write(tmp_path)
    same = as_yaml(export_resources(load_project(root)))
    assert not apply_resources(root, same, "new.yaml").written
    changed = FILES["parts/docs.yaml"].replace("top_k: 3", "top_k: 4")
    with pytest.raises(
        UsageError, match=r"'docs' is declared in its own file, parts/docs\.yaml; change"
    ):
        apply_resources(root, changed, "new.yaml")
    applied = apply_resources(root, changed.replace("id: docs", "id: faq"), "new.yaml")
    assert [(change.id, change.action) for change in applied.changes] == [("faq", "created")]
    assert (root / "parts/docs.yaml").read_text() == FILES["parts/docs.yaml"]
    assert str(load_project(root).knowledge_base("faq")[0].position()).startswith("lorebind.yaml")
