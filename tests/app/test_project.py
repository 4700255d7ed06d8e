"""`Project`: loading, sync and async versions, closing, and sharing."""

from __future__ import annotations

import gc
import inspect
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from lorebind import (
    ConfigurationError,
    Event,
    Extension,
    IndexMismatchError,
    NotFoundError,
    NotIngestedError,
    Project,
    UsageError,
)
from tests.bindings.helpers import write

from .helpers import FILES, PROJECT, WORKFLOW

QUESTION = "How do I rotate the keys?"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


def plain(result: Any) -> dict[str, Any]:
    """Return a result as data, without values that differ between runs."""
    data = asdict(result)
    for key in ("seconds", "run_id", "thread_id", "message"):
        data.pop(key, None)
    for entry in data.get("results", []):
        entry["result"].pop("seconds")
    return data


def open_files(root: Path) -> list[str]:
    """Return the files below a folder that this process has open."""
    held = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith(str(root)):
            held.append(target)
    return held


def test_a_folder_and_its_file_are_the_same_project(root: Path) -> None:
    """`load` takes the folder or the file, as text or path."""
    for path in (root, str(root), root / "lorebind.yaml", str(root / "lorebind.yaml")):
        project = Project.load(path)
        assert (project.name, project.config.root) == ("shop", root)


def test_built_and_loaded_find_the_same(root: Path) -> None:
    """The same declarations as Python objects give the same passages with the same scores."""
    declared = yaml.safe_load(PROJECT) | {"workflows": [yaml.safe_load(WORKFLOW)]}
    declared.pop("autoload")
    with Project.load(root) as loaded, Project.build(declared, root=root) as built:
        loaded.ingest("docs")
        assert built.ingest("docs").documents["unchanged"] == 2
        assert plain(built.query("docs", QUESTION)) == plain(loaded.query("docs", QUESTION))
        inputs = {"question": QUESTION}
        assert plain(built.run("reply", inputs)) == plain(loaded.run("reply", inputs))


EMBEDDINGS = """\
from langchain_core.embeddings import DeterministicFakeEmbedding

class Mine(DeterministicFakeEmbedding):
    pass
"""
OWN_EMBEDDER = """\
name: shop
embedders: [{ id: mine, provider: langchain, class: "models.mine:Mine", config: { size: 8 } }]
knowledge_bases: [{ id: docs, sources: [{ type: markdown_glob, path: "docs/*.md" }] }]
"""


def test_a_moved_project_keeps_the_index_of_its_own_embedder(tmp_path: Path) -> None:
    """An embedder of the project's folder is the same one wherever the folder is."""
    files = {**FILES, "models/mine.py": EMBEDDINGS, "lorebind.yaml": OWN_EMBEDDER}
    root = write(tmp_path / "here", files)
    with Project.load(root) as project:
        project.ingest("docs")
        before = plain(project.query("docs", QUESTION))
    moved = root.rename(tmp_path / "there")
    with Project.load(moved) as project:
        assert plain(project.query("docs", QUESTION)) == before
        assert project.ingest("docs").texts_embedded == 0
    other = OWN_EMBEDDER.replace("size: 8", "size: 16")
    (moved / "lorebind.yaml").write_text(other)
    with Project.load(moved) as project:
        changed = r"built with the embedder (\S+), .* declares \1 with other settings; rebuild"
        with pytest.raises(IndexMismatchError, match=changed):
            project.query("docs", QUESTION)


def test_nothing_is_opened_before_it_is_needed(root: Path) -> None:
    """Loading, planning and statistics leave the project folder unchanged."""
    before = sorted(root.rglob("*"))
    with Project.load(root) as project:
        assert project.plan("docs").texts_to_embed == 2
        assert project.stats("docs").chunks == 0
        with pytest.raises(NotIngestedError):
            project.query("docs", QUESTION)
    assert sorted(root.rglob("*")) == before


async def test_both_faces_give_the_same(root: Path) -> None:
    """Every operation returns the same in its sync and async version, also in a running loop."""
    async with Project.load(root) as project:
        assert plain(project.plan("docs")) == plain(await project.aplan("docs"))
        first = await project.aingest("docs")
        assert first.documents["added"] == 2
        assert plain(project.ingest("docs")) == plain(await project.aingest("docs"))
        assert plain(project.query("docs", QUESTION)) == plain(
            await project.aquery("docs", QUESTION)
        )
        assert plain(project.ask(QUESTION)) == plain(await project.aask(QUESTION))
        inputs = {"question": QUESTION}
        assert plain(project.run("reply", inputs)) == plain(await project.arun("reply", inputs))
        assert project.stats("docs") == await project.astats("docs")


def twins() -> list[str]:
    return [
        name
        for name, member in inspect.getmembers(Project, inspect.iscoroutinefunction)
        if not name.startswith("_")
    ]


def test_there_are_twins_to_compare() -> None:
    """All operations of `Project` are compared below."""
    assert {"aask", "aclose", "aingest", "aplan", "aquery", "arun", "astats"} <= set(twins())


@pytest.mark.parametrize("name", twins())
def test_every_awaited_method_has_a_blocking_twin(name: str) -> None:
    """`aquery` has a sync version `query` with the same signature and documentation."""
    awaited, blocking = getattr(Project, name), getattr(Project, name.removeprefix("a"))
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert awaited.__doc__
    assert blocking.__doc__ == awaited.__doc__
    assert blocking.__name__ == name.removeprefix("a")
    assert not inspect.iscoroutinefunction(blocking)


def test_a_context_manager_closes_what_was_opened(root: Path) -> None:
    """After the block, no file of the project is open."""
    with Project.load(root) as project:
        project.ingest("docs")
        project.query("docs", QUESTION)
        assert open_files(root)
    assert open_files(root) == []
    del project
    gc.collect()  # unclosed resources would warn, and warnings are errors


async def test_an_async_context_manager_closes_too(root: Path) -> None:
    """`async with` closes too, even if the block raises."""

    async def fail_inside() -> None:
        async with Project.load(root) as project:
            await project.aingest("docs")
            await project.aquery("docs", QUESTION)
            assert open_files(root)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()
    assert open_files(root) == []


def test_closing_twice_and_going_on_are_fine(root: Path) -> None:
    """Closing again does nothing, and a later call reopens what it needs."""
    project = Project.load(root)
    project.ingest("docs")
    project.close()
    project.close()
    assert len(project.query("docs", QUESTION)) == 2
    project.close()
    assert open_files(root) == []


@pytest.fixture
def project(root: Path) -> Any:
    with Project.load(root) as project:
        project.ingest("docs")
        yield project


def test_a_result_is_its_matches(project: Project) -> None:
    """A query's result iterates over its matches, best first, and has a length."""
    result = project.query("docs", QUESTION)
    assert list(result) == result.matches
    assert len(result) == 2
    assert (result.strategy, result.searched, result.skipped) == ("hybrid", ["docs"], [])
    best = result.matches[0]
    assert best.metadata["uri"] == "docs/keys.md"
    assert best.score > result.matches[1].score
    assert best.metadata["team"] == "ops"


def test_a_query_may_override(project: Project) -> None:
    """Each override changes this query only."""
    assert len(project.query("docs", QUESTION, top_k=1)) == 1
    assert len(project.query("docs", QUESTION, min_score=1.0)) == 0
    assert len(project.query("docs", QUESTION, min_score=0.0)) == 2
    hits = project.query("docs", QUESTION, filters={"uri": "docs/bills.md"})
    assert [match.metadata["uri"] for match in hits] == ["docs/bills.md"]
    assert len(project.query("docs", QUESTION, filters={"team": "sales"})) == 0
    assert len(project.query("docs", QUESTION, strategy="similarity")) == 2
    assert len(project.query("docs", QUESTION)) == 2


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ({"top_k": 0}, "top_k is 0; expected 1 to 50"),
        ({"top_k": 51}, "top_k is 51; expected 1 to 50"),
        ({"top_k": -1}, "top_k is -1; expected 1 to 50"),
        ({"min_score": 1.5}, "min_score is 1.5; expected 0 to 1"),
        ({"min_score": -0.1}, "min_score is -0.1; expected 0 to 1"),
        (
            {"strategy": "telepathy"},
            "strategy 'telepathy' is not supported; known: hybrid, lexical, mmr, rerank",
        ),
        ({"filters": {"uri": {"$foo": 1}}}, r"\$foo.*known: \$and"),
    ],
)
def test_limits_are_told(project: Project, override: dict[str, Any], reason: str) -> None:
    """A setting out of range raises an error that names the setting and the limit."""
    with pytest.raises(UsageError, match=reason):
        project.query("docs", QUESTION, **override)


@pytest.mark.parametrize("question", ["", "  \n "])
def test_a_blank_question_is_refused(project: Project, question: str) -> None:
    """There is nothing to search for in a question without words."""
    with pytest.raises(UsageError, match="the question is empty"):
        project.query("docs", question)
    with pytest.raises(UsageError, match="the question is empty"):
        project.ask(question)


def test_ask_searches_what_is_bound(project: Project) -> None:
    """With project-level bindings, only those are searched."""
    answer = project.ask(QUESTION)
    assert [result.binding.id for result in answer.results] == ["docs"]
    assert answer.verdict == "hit"
    assert [citation.uri for citation in answer.citations] == ["docs/keys.md"]


def test_ask_without_bindings_searches_everything(root: Path) -> None:
    """In a project without bindings, all knowledge bases are searched."""
    write(root, {"lorebind.yaml": PROJECT.replace("knowledge: [{ id: docs }]\n", "")})
    with Project.load(root) as project:
        project.ingest("docs")
        project.ingest("rules")
        answer = project.ask("Who grants access to a system?")
    assert [result.binding.id for result in answer.results] == ["docs", "rules"]
    assert answer.citations[0].uri == "rules/access.md"


def test_a_retriever_of_named_knowledge_bases_or_of_a_place(project: Project) -> None:
    """`retriever` accepts ids or a location with bindings; its own fields are passed on."""
    by_id = project.retriever("docs", k=1, tags=["mine"])
    assert by_id.tags == ["mine"]
    assert len(by_id.invoke(QUESTION)) == 1
    at_a_place = project.retriever(workflow="reply", task="say")
    assert [document.id for document in at_a_place.invoke(QUESTION)] == [
        match.id for match in project.query("docs", QUESTION)
    ]


def test_a_retriever_of_nothing_is_refused(tmp_path: Path) -> None:
    """If nothing is declared, there is nothing to retrieve, and the error suggests a fix."""
    with pytest.raises(UsageError, match="no knowledge base yet; declare one"):
        Project.build({"name": "p"}, root=tmp_path).retriever()


def test_unknown_ids_are_named(project: Project) -> None:
    """Every operation suggests the nearest known id."""
    for operation in (project.ingest, project.plan, project.stats):
        with pytest.raises(NotFoundError, match="'doks'; did you mean 'docs'"):
            operation("doks")
    with pytest.raises(NotFoundError, match="'doks'; did you mean 'docs'"):
        project.query("doks", QUESTION)
    with pytest.raises(NotFoundError, match="'doks'; did you mean 'docs'"):
        project.retriever("doks")
    with pytest.raises(NotFoundError, match="'replay'; did you mean 'reply'"):
        project.run("replay")


async def test_it_works_in_a_running_loop(project: Project) -> None:
    """The sync version works while a loop runs, as in a notebook."""
    assert len(project.query("docs", QUESTION)) == 2


def test_eight_threads_share_a_project(root: Path) -> None:
    """Threads may share one project at the same time, from its first use on."""
    with Project.load(root) as first:
        first.ingest("docs")
        first.ingest("rules")
    queries = [("docs", QUESTION), ("rules", "Who grants access?")] * 16
    with Project.load(root) as project, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda query: plain(project.query(*query)), queries))
    assert answers == answers[:2] * 16
    assert answers[0]["matches"][0]["metadata"]["uri"] == "docs/keys.md"
    assert answers[1]["matches"][0]["metadata"]["uri"] == "rules/access.md"


def test_extensions_hear_of_an_ingest(root: Path) -> None:
    """An extension receives events of an ingest, a query and closing, and may fail without harm."""
    heard: list[tuple[str, str]] = []

    class Watch(Extension):
        def ingest_completed(self, event: Event) -> None:
            heard.append(("ingested", event.kb_id))

        def retrieval_completed(self, event: Event) -> None:
            heard.append(("searched", event.kb_id))

        def shutdown(self, event: Event) -> None:
            heard.append(("closed", event.kb_id))

    with Project.load(root, extensions=[Watch()]) as project:
        project.ingest("docs")
        project.query("docs", QUESTION)
    assert heard == [("ingested", "docs"), ("searched", "docs"), ("closed", "")]


def test_nothing_shows_a_secret(root: Path) -> None:
    """The `repr` of a project and its parts shows no value of a variable."""
    models = '\nmodels: [{ id: m, provider: openai, model: gpt-4o, api_key: "{{ .env.K }}" }]\n'
    write(root, {"lorebind.yaml": PROJECT + models, ".env": "OTHER=from-the-file-7788\n"})
    project = Project.load(root, environ={"K": "sk-very-secret-1234"})
    model, _ = project._models.get()
    text = " ".join(
        [repr(project), str(project), repr(project.config), repr(vars(project)), repr(model)]
    )
    assert "Project('shop'" in text
    assert "sk-very-secret-1234" not in text
    assert "from-the-file-7788" not in text


def test_no_project_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    """Without a project file, the error names the command that creates one."""
    with pytest.raises(ConfigurationError, match="lorebind init") as caught:
        Project.load(tmp_path)
    assert caught.value.problems[0].file == "lorebind.yaml"
