"""Which parts of a knowledge base an operation creates, counted by plugins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_config import plugins
from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.reading.loaded import LoadedProject
from lorebind_prompts import ExtractiveChatModel
from tests.bindings.helpers import write
from tests.plugin_project import acme_lore

from .helpers import Cli

QUESTION = "When are keys rotated?"

PROJECT = """\
name: shop
embedders: [{ id: words, provider: acme }]
vector_dbs: [{ id: here, type: sqlite }]
knowledge_bases:
  - id: guide
    sources: [{ type: acme_wiki, file: guide.json }]
    chunking: { strategy: acme }
  - id: rules
    sources: [{ type: acme_wiki, file: rules.json }]
    chunking: { strategy: acme }
knowledge: [{ id: guide }, { id: rules }]
"""

FILES = {
    "lorebind.yaml": PROJECT,
    "guide.json": json.dumps({"keys": "Keys are rotated each month; old keys are revoked;"}),
    "rules.json": json.dumps({"access": "The owner of a system rotates its keys;"}),
}

NOTHING = {"sources": 0, "chunkers": 0, "embedders": 0}


class Counting:
    """A plugin that counts the objects it creates."""

    def __init__(self, plugin: Any) -> None:
        self.Declaration = plugin.Declaration
        self._plugin = plugin
        self.calls = 0

    def make(self, declaration: Any, environment: Any) -> Any:
        self.calls += 1
        return self._plugin.make(declaration, environment)


class Counts:
    """The objects that plugins have created since the last call."""

    def __init__(self) -> None:
        self.plugins: dict[str, Counting] = {
            "sources": Counting(acme_lore.source),
            "chunkers": Counting(acme_lore.chunker),
            "embedders": Counting(acme_lore.embedder),
        }

    def look(self) -> dict[str, int]:
        calls = {group: plugin.calls for group, plugin in self.plugins.items()}
        for plugin in self.plugins.values():
            plugin.calls = 0
        return calls


@pytest.fixture
def counts() -> Iterator[Counts]:
    counts = Counts()
    names: tuple[tuple[plugins.Group, str], ...] = (
        ("sources", "acme_wiki"),
        ("chunkers", "acme"),
        ("embedders", "acme"),
    )
    for group, name in names:
        plugins.register(group, name, counts.plugins[group])
    yield counts
    for group, name in names:
        plugins.unregister(group, name)


@pytest.fixture
def project(tmp_path: Path, counts: Counts) -> Iterator[Project]:
    """Return a project with two knowledge bases, with nothing ingested yet."""
    with Project.load(write(tmp_path, FILES), environ={}) as project:
        yield project


@pytest.mark.parametrize(
    "ask",
    [
        lambda project: project.query("guide", QUESTION).matches,
        lambda project: project.query_many(["guide", "rules"], QUESTION).matches,
        lambda project: project.retriever().invoke(QUESTION),
        lambda project: project.generate(QUESTION, model=ExtractiveChatModel()).text,
        lambda project: project.knowledge_base("guide").vector_store().similarity_search(QUESTION),
    ],
    ids=["query", "query_many", "retriever", "generate", "vector_store"],
)
def test_a_question_makes_no_source_and_no_chunker(
    ask: Callable[[Project], Any], project: Project, counts: Counts
) -> None:
    """Only ingestion needs them, however a question is asked."""
    project.ingest("guide")
    project.ingest("rules")
    counts.look()
    assert ask(project)
    assert counts.look() == NOTHING


def test_an_ingest_makes_each_once(project: Project, counts: Counts) -> None:
    """A plan, the ingest after it, and a reindex create each part once, and share the embedder."""
    guide = project.knowledge_base("guide")
    guide.plan()
    assert counts.look() == {"sources": 1, "chunkers": 1, "embedders": 1}
    for operation in (guide.ingest, guide.reindex):
        operation()
        assert counts.look() == {"sources": 1, "chunkers": 1, "embedders": 0}


def test_a_knowledge_base_is_looked_up_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an ingest nor a question looks up its knowledge base again, or validates settings."""
    looked_up: list[tuple[Any, ...]] = []
    validated: list[dict[str, Any]] = []
    look_up, validate = LoadedProject.knowledge_base, RetrievalDeclaration.__init__

    def counted(loaded: LoadedProject, *names: Any) -> Any:
        looked_up.append(names)
        return look_up(loaded, *names)

    def noted(settings: RetrievalDeclaration, **values: Any) -> None:
        validated.append(values)
        validate(settings, **values)

    monkeypatch.setattr(LoadedProject, "knowledge_base", counted)
    monkeypatch.setattr(RetrievalDeclaration, "__init__", noted)
    project.ingest("guide")
    assert project.query("guide", QUESTION).matches
    assert (looked_up, validated) == ([("guide", None)], [])
    assert project.query("guide", QUESTION, top_k=1).matches
    assert (looked_up, validated) == ([("guide", None)], [{"top_k": 1}])


def test_only_the_first_question_ingests(tmp_path: Path, counts: Counts) -> None:
    """With `ingest: on_start`, the first question creates each part once; later ones do not."""
    text = PROJECT.replace("chunking: {", "ingest: on_start\n    chunking: {")
    with Project.load(write(tmp_path, FILES | {"lorebind.yaml": text}), environ={}) as project:
        assert project.query("guide", QUESTION).matches
        assert counts.look() == {"sources": 1, "chunkers": 1, "embedders": 1}
        assert project.query("guide", QUESTION).matches
        assert counts.look() == NOTHING


def test_statistics_make_nothing(
    tmp_path: Path,
    counts: Counts,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`knowledge list`, `get` and `stats` read only the catalog, before and after an ingest."""
    cli = Cli(write(tmp_path, FILES), monkeypatch, capsys)
    for chunks in (0, 2):
        with Project.load(tmp_path, environ={}) as project:
            assert project.stats("guide").chunks == chunks
        assert cli("knowledge", "list").code == 0
        done = cli("knowledge", "get", "guide", "--output", "json")
        assert json.loads(done.out)["stats"]["chunks"] == chunks
        assert counts.look() == NOTHING
        assert cli("knowledge", "ingest", "guide").code == 0
        counts.look()


def test_doctor_finds_a_chunker_that_cannot_be_made(
    project: Project, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question needs no chunker, so nothing else would report it before the next ingest."""
    project.ingest("guide")

    def broken(declaration: Any, environment: Any) -> Any:
        raise RuntimeError("no licence")

    monkeypatch.setattr(counts.plugins["chunkers"], "make", broken)
    assert project.query("guide", QUESTION).matches
    finding = {finding.part: finding for finding in project.doctor()}["knowledge base guide"]
    assert finding.status == "failed"
    assert "no licence" in finding.detail
