"""Views of a project for one tenant, and projects that require a tenant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage

from lorebind import Event, Extension, MemorySink, NotFoundError, Project, UsageError, tenant
from lorebind.cli.run_result import how_to_resume
from lorebind_config.errors import TenantRequiredError
from lorebind_config.namespace import current_tenant
from lorebind_prompts import ExtractiveChatModel
from tests.bindings.helpers import PARTS, Agentic, write

from .helpers import Cli

QUESTION = "Who is the contact?"
ACME, ZENITH = "The contact of Acme is Ann.", "The contact of Zenith is Bob."

CODE = """
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from lorebind_config.namespace import current_tenant
from lorebind_knowledge.middleware import Wrapper

class Loader(BaseLoader):
    def lazy_load(self):
        yield Document(f"This is the loader of {current_tenant()}.", metadata={"source": "a"})

class Strict(Wrapper):
    def retrieval(self, inner):
        async def checked(asked):
            assert asked.tenant == current_tenant()
            return await inner(asked)
        return checked

def whose():
    return current_tenant()
"""

PROJECT = f"""
name: helpdesk
{PARTS}
knowledge_bases:
  - id: docs
    sources: [{{ type: langchain, class: "code_of_project:Loader" }}]
knowledge: [{{ id: docs }}]
wrappers: [{{ type: cache }}, {{ type: isolation }}, "code_of_project:Strict"]
workflows:
  - id: tell
    tasks:
      - {{ id: whose, type: python, call: "code_of_project:whose", cache: {{ ttl_seconds: 60 }} }}
      - {{ id: say, prompt: "{QUESTION}" }}
"""


def files(yaml: str = PROJECT) -> dict[str, str]:
    return {"lorebind.yaml": yaml, "code_of_project.py": CODE}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Return a project in which two tenants have a document each."""
    with Project.load(write(tmp_path, files()), environ={}) as project:
        for name, text in (("acme", ACME), ("zenith", ZENITH)):
            project.for_tenant(name).add_documents("docs", [{"id": "contact", "text": text}])
        yield project


def in_thread(work: Callable[[], Any]) -> Any:
    """Run a function in a thread that inherits no context, within the block of another tenant."""
    with tenant("zenith"), ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def here(work: Callable[[], Any]) -> Any:
    """Run a function within the block of another tenant."""
    with tenant("zenith"):
        return work()


ELSEWHERE = pytest.mark.parametrize("elsewhere", [in_thread, here])


def read_by_agent(middleware: Any) -> str:
    """Return what the model of an agent with this middleware reads."""
    model = Agentic(says=[AIMessage("ok")])
    create_agent(model, [], middleware=[middleware]).invoke({"messages": [HumanMessage(QUESTION)]})
    return str(model.heard[0])


def test_documents_added_in_a_pool_belong_to_the_view(tmp_path: Path) -> None:
    """A function of a view that a thread pool runs writes for the view's tenant, not `default`."""
    with Project.load(write(tmp_path, files()), environ={}) as project:
        view = project.for_tenant("acme")
        with ThreadPoolExecutor(4) as pool:
            some = [[{"id": f"{number}", "text": f"{ACME} {number}"}] for number in range(8)]
            for begun in [pool.submit(view.add_documents, "docs", batch) for batch in some]:
                begun.result()
        assert len(view.documents("docs")) == 8
        assert project.documents("docs") == []
        with pytest.raises(NotFoundError, match="nothing has been ingested"):
            project.query("docs", QUESTION)


@ELSEWHERE
@pytest.mark.parametrize(
    "ask",
    [
        lambda view: view.query("docs", QUESTION)[0].text,
        lambda view: view.query_many(["docs"], QUESTION)[0].text,
        lambda view: view.ask(QUESTION).text,
        lambda view: view.generate(QUESTION, "docs").text,
        lambda view: "".join(view.stream(QUESTION, "docs")),
        lambda view: (
            view.documents("docs")[0].title
            + view.knowledge_base("docs").chunks("added:contact")[0].text
        ),
        lambda view: view.run("tell").tasks["say"].output,
        lambda view: view.with_knowledge_bases([]).query("docs", QUESTION)[0].text,
        lambda view: view.for_tenant("acme").query("docs", QUESTION)[0].text,
        lambda view: view.at("docs").generate(QUESTION).text,
    ],
)
def test_a_view_wins(project: Project, ask: Any, elsewhere: Any) -> None:
    """A call of a view is for its tenant, in a thread and in the block of another tenant."""
    text = elsewhere(lambda: ask(project.for_tenant("acme")))
    assert ACME in text
    assert ZENITH not in text


MADE: list[Any] = [
    (lambda of: of.retriever("docs"), lambda face: face.invoke(QUESTION)[0].page_content),
    (lambda of: of.at("docs").retriever(), lambda face: face.batch([QUESTION])[0][0].page_content),
    (lambda of: of.tool("docs"), lambda face: face.invoke({"query": QUESTION})),
    (lambda of: of.prompt("docs"), lambda face: face.invoke(QUESTION).to_string()),
    (
        lambda of: of.prompt() | ExtractiveChatModel() | of.citations(),
        lambda face: face.invoke(QUESTION).text,
    ),
    (
        lambda of: of.knowledge_base("docs").vector_store(),
        lambda face: face.similarity_search(QUESTION)[0].page_content,
    ),
    (
        lambda of: of.knowledge_base("docs").vector_store().as_retriever(),
        lambda face: face.invoke(QUESTION)[0].page_content,
    ),
    (lambda of: of.knowledge_base("docs"), lambda face: face.query(QUESTION)[0].text),
    (lambda of: of.knowledge_base("docs"), lambda face: face.chunks("added:contact")[0].text),
    (lambda of: of.knowledge_base("docs"), lambda face: face.generate(QUESTION).text),
    (lambda of: of.middleware("docs"), lambda face: read_by_agent(face)),
    (lambda of: of.graph("tell"), lambda face: face.invoke({})["output"]),
]


@ELSEWHERE
@pytest.mark.parametrize(("make", "use"), MADE)
def test_what_a_view_makes_is_bound(project: Project, make: Any, use: Any, elsewhere: Any) -> None:
    """Objects of a view are for its tenant, in a thread and in the block of another tenant."""
    face = make(project.for_tenant("acme"))
    text = elsewhere(lambda: use(face))
    assert ACME in text
    assert ZENITH not in text


@pytest.mark.parametrize(("make", "use"), MADE)
def test_what_the_project_makes_asks_when_it_is_used(project: Project, make: Any, use: Any) -> None:
    """Objects of the plain project are for the tenant of each use, not of their creation."""
    with tenant("acme"):
        face = make(project)
    for name, text in (("zenith", ZENITH), ("acme", ACME)):
        with tenant(name):
            assert text in use(face)


def test_collections_belong_to_the_tenant(project: Project) -> None:
    """A collection of a view is the view's; one of the project is for the tenant of each use."""
    bound, plain = project.for_tenant("acme").collection("notes"), project.collection("notes")
    in_thread(lambda: bound.add_texts([ACME], ids=["1"]))
    with tenant("acme"):
        assert [document.id for document in plain.similarity_search(QUESTION)] == ["1"]
    with tenant("zenith"):
        assert plain.similarity_search(QUESTION) == []
    assert plain.similarity_search(QUESTION) == []


@ELSEWHERE
@pytest.mark.parametrize("of_view", [True, False])
def test_a_stream_is_for_the_tenant_that_made_it(
    project: Project, elsewhere: Any, *, of_view: bool
) -> None:
    """Streams that are read later, as another tenant or in a thread, keep their tenant."""
    if of_view:
        view = project.for_tenant("acme")
        answer, run = view.stream(QUESTION, "docs"), view.run_stream("tell", thread_id="t")
    else:
        with tenant("acme"):
            answer, run = project.stream(QUESTION, "docs"), project.run_stream("tell")
    assert ACME in elsewhere(lambda: "".join(answer))
    elsewhere(lambda: list(run))
    assert run.result.tasks["whose"].output == "acme"
    assert ACME in run.result.output
    assert len(project.for_tenant("acme").threads("tell")) == 1
    assert project.for_tenant("zenith").threads("tell") == []


@ELSEWHERE
def test_threads_of_workflows_belong_to_the_view(project: Project, elsewhere: Any) -> None:
    """Runs, replays, their cached tasks and their threads are the view's own."""
    views = {name: project.for_tenant(name) for name in ("acme", "zenith")}
    for name, view in views.items():
        for _ in range(2):  # the second run takes the output of the task from the cache
            result = elsewhere(lambda view=view: view.run("tell"))
            assert result.tasks["whose"].output == name
        elsewhere(lambda view=view, result=result: view.replay("tell", result.thread_id, 0))
        assert len(view.threads("tell")) == 3
        assert elsewhere(lambda view=view, result=result: view.history("tell", result.thread_id))
    assert project.threads("tell") == []


@ELSEWHERE
def test_code_of_the_project_sees_the_tenant_of_the_view(project: Project, elsewhere: Any) -> None:
    """`current_tenant()` in sources, wrappers, tasks and sinks is the tenant of the call."""
    view, seen, sink = project.for_tenant("acme"), list[str](), MemorySink()
    elsewhere(lambda: view.ingest("docs"))
    assert "the loader of acme" in view.query("docs", "loader")[0].text
    assert view.plan("docs").documents["unchanged"] == 2  # with the one that was added
    sinks = [sink, lambda _: seen.append(current_tenant())]
    assert elsewhere(lambda: view.run("tell", sinks=sinks)).tasks["whose"].output == "acme"
    assert set(seen) == {"acme"}
    assert len(seen) == len(sink.events)


class Hears(Extension):
    """Notes the tenant that the code of extensions, embedders and models sees."""

    def __init__(self, seen: set[str]) -> None:
        self.seen = seen

    def document_deleted(self, event: Event) -> None:
        self.seen.add(current_tenant())

    collection_deleted = reindex_started = reindex_completed = document_deleted


@ELSEWHERE
@pytest.mark.parametrize(
    "work",
    [
        lambda view: view.knowledge_base("docs").reindex(),
        lambda view: view.delete_document("docs", "added:contact"),
        lambda view: view.knowledge_base("docs").delete(),
        lambda view: list(view.stream(QUESTION)),
        lambda view: asyncio.run(read_all(view.astream(QUESTION))),
        lambda view: view.collection("notes").add_texts(["a"]),
        lambda view: view.collection("notes").similarity_search("a"),
        lambda view: view.collection("notes").max_marginal_relevance_search("a"),
        lambda view: view.knowledge_base("docs").vector_store().similarity_search(QUESTION),
    ],
)
def test_extensions_embedders_and_models_see_the_tenant(
    tmp_path: Path, work: Any, elsewhere: Any
) -> None:
    """Objects that a project uses are called as the tenant of the view, wherever it is used."""
    seen: set[str] = set()

    class Embeds(DeterministicFakeEmbedding):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            seen.add(current_tenant())
            return super().embed_documents(texts)

        def embed_query(self, text: str) -> list[float]:
            seen.add(current_tenant())
            return super().embed_query(text)

    class Answers(ExtractiveChatModel):
        def _stream(self, *arguments: Any, **settings: Any) -> Any:
            seen.add(current_tenant())
            return super()._stream(*arguments, **settings)

    declared = {"name": "desk", "knowledge_bases": [{"id": "docs", "sources": []}]}
    parts: Any = {"embedder": Embeds(size=8), "model": Answers(), "root": tmp_path}
    with Project.build(
        declared | {"knowledge": [{"id": "docs"}]}, extensions=[Hears(seen)], **parts
    ) as project:
        view = project.for_tenant("acme")
        view.add_documents("docs", [{"id": "contact", "text": ACME}])
        view.collection("notes").add_texts(["b"])
        seen.clear()
        elsewhere(lambda: work(view))
    assert seen == {"acme"}


async def read_all(stream: AsyncIterable[str]) -> None:
    async for _ in stream:
        pass


def test_closing_a_view_closes_the_project(project: Project) -> None:
    """A view shares what is open, and either can go on after the other was closed."""
    view = project.for_tenant("acme")
    for closing, other in ((project, view), (view, project)):
        view.run("tell")
        closing.close()
        assert other.for_tenant("acme").run("tell").status == "completed"


@pytest.mark.parametrize("name", ["", " ", None])
def test_a_tenant_needs_a_name(project: Project, name: Any) -> None:
    with pytest.raises(UsageError, match="a tenant needs a name that is not empty"):
        project.for_tenant(name)
    with pytest.raises(ValueError, match="a tenant needs a name that is not empty"), tenant(name):
        pass


def test_a_view_is_bound_for_good(project: Project) -> None:
    """Code that is given a view of one tenant gets no view of another one from it."""
    with pytest.raises(UsageError, match="this view is bound to tenant 'acme'"):
        project.for_tenant("acme").for_tenant("zenith")


REQUIRED = PROJECT.replace("name: helpdesk", "name: helpdesk\ntenancy: required")


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Project]:
    """Return a project whose calls must name their tenant."""
    with Project.load(write(tmp_path, files(REQUIRED)), environ={}) as strict:
        strict.for_tenant("default").ingest("docs")
        yield strict


@pytest.mark.parametrize(
    "ask",
    [
        lambda project: project.query("docs", QUESTION),
        lambda project: project.ingest("docs"),
        lambda project: project.plan("docs"),
        lambda project: project.stats("docs"),
        lambda project: project.knowledge_base("docs").delete(),
        lambda project: project.add_documents("docs", [{"id": "a", "text": "a"}]),
        lambda project: project.generate(QUESTION),
        lambda project: project.generate(QUESTION, retrieved_contexts=[]),
        lambda project: project.stream(QUESTION),
        lambda project: project.run("tell"),
        lambda project: project.run_stream("tell"),
        lambda project: project.threads("tell"),
        lambda project: project.graph("tell").invoke({}),
        lambda project: project.retriever("docs").invoke(QUESTION),
        lambda project: project.tool("docs").invoke({"query": QUESTION}),
        lambda project: project.prompt("docs").invoke(QUESTION),
        lambda project: read_by_agent(project.middleware("docs")),
        lambda project: project.knowledge_base("docs").vector_store().similarity_search(QUESTION),
        lambda project: project.collection("notes").add_texts(["a"]),
    ],
)
def test_calls_without_a_tenant_are_refused(strict: Project, ask: Any) -> None:
    """With `tenancy: required`, only a tenant that is named counts, `default` too."""
    with pytest.raises(TenantRequiredError, match=r"for_tenant.*with tenant.*--tenant.*X-Tenant"):
        ask(strict)
    with pytest.raises(TenantRequiredError), ThreadPoolExecutor(1) as pool, tenant("default"):
        pool.submit(ask, strict).result()
    with tenant("default"):
        ask(strict)
    ask(strict.for_tenant("default"))


def test_calls_that_concern_no_tenant_are_not_refused(strict: Project) -> None:
    """Declarations can be read, and objects can be made, without a tenant."""
    assert [knowledge_base.id for knowledge_base in strict.knowledge_bases()] == ["docs"]
    assert strict.export("docs")
    assert strict.explain()
    assert [workflow["id"] for workflow in strict.workflows()] == ["tell"]
    assert strict.purge(dry_run=True) == []
    assert strict.retriever("docs")
    assert strict.knowledge_base("docs").info.id == "docs"
    assert strict.knowledge_base("docs").vector_store()
    assert strict.collection("notes")
    parts = {finding.part: finding for finding in strict.doctor()}
    assert parts["vector database file"].status == "ok"
    assert "`tenancy: required`" in parts["knowledge base docs"].detail


def test_suggested_commands_name_the_tenant_default(strict: Project) -> None:
    """With `tenancy: required`, a suggested command works as it is, for `default` too."""
    view = strict.for_tenant("default")
    view.knowledge_base("docs").delete()
    with pytest.raises(NotFoundError, match=r"ingest docs --tenant default$"):
        view.query("docs", QUESTION)
    with pytest.raises(NotFoundError, match=r"workflow threads tell --tenant default` lists"):
        view.history("tell", "unknown")
    assert how_to_resume(view, "tell", "t").endswith(" --tenant default")


def test_commands_of_a_project_that_requires_a_tenant(empty_cli: Cli) -> None:
    """`--tenant` names the tenant; commands that concern none work without it."""
    empty_cli.write(files(REQUIRED))
    for command in (["validate"], ["bindings", "explain"], ["workflow", "list"]):
        assert empty_cli(*command).code == 0
    done = empty_cli("ingest", "docs")
    assert (done.code, "--tenant NAME" in done.err) == (2, True)
    assert empty_cli("ingest", "docs", "--tenant", "default").code == 0
    assert empty_cli("query", "docs", "-q", "loader", "--tenant", "default").code == 0


@pytest.mark.parametrize(
    "run",
    [
        lambda project: project.run("tell", event_buffer=0),
        lambda project: project.run_stream("tell", event_buffer=0),
        lambda project: project.resume("tell", "t", event_buffer=0),
        lambda project: project.resume_stream("tell", "t", event_buffer=0),
    ],
)
def test_an_event_buffer_without_room(project: Project, run: Any) -> None:
    """Readers and sinks must be able to wait for at least one event."""
    with pytest.raises(UsageError, match="event_buffer must be at least 1, got 0"):
        run(project)
