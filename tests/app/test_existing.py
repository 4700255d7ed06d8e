"""A vector store that others fill, in every feature of a project."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.vectorstores import InMemoryVectorStore

from lorebind import Project, existing
from lorebind_knowledge.collection import LorebindEmbeddings
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from tests.bindings.helpers import write

from .helpers import Cli

WORDS = LorebindEmbeddings(HashingEmbedder(dimension=256))
PAGE = {"source": "b.pdf", "page": 0, "page_label": "1"}
"""Page metadata as LangChain's PDF loaders write it."""
DOCUMENTS = [
    Document("Keys are rotated every month.", id="a", metadata={"source": "keys.md"}),
    Document("Lunch is served at noon.", id="b", metadata={"source": "lunch.md"}),
    Document("Invoices are sent.", id="d", metadata=PAGE),
]
QUESTION = "How often are keys rotated?"


class Backwards:
    """A reranker that prefers shorter texts."""

    def rerank(self, question: str, texts: list[str]) -> list[float]:
        return [1 / len(text.split()) for text in texts]


def filled(*more: Document) -> InMemoryVectorStore:
    store = InMemoryVectorStore(WORDS)
    store.add_documents([*DOCUMENTS, *more])
    return store


def project_of(
    root: Path,
    retrieval: dict[str, Any] | None = None,
    store: InMemoryVectorStore | None = None,
    **more: Any,
) -> Project:
    """Return a project with only a store that others fill, and these retrieval settings."""
    base = {"id": "documents", "retrieval": retrieval or {}}
    declared = {"knowledge_bases": [base], "knowledge": [{"id": "documents"}], **more}
    model: Any = FakeListChatModel(responses=["Every month [1]."])
    theirs = existing(store or filled())
    return Project.build(declared, vector_store=theirs, model=model, root=root)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with project_of(tmp_path) as built:
        yield built


def uris(hits: Any) -> list[str]:
    return [hit.metadata["uri"] for hit in hits]


@pytest.mark.parametrize("strategy", ["similarity", "mmr", "rerank"])
def test_recency_counts_there_too(tmp_path: Path, strategy: str) -> None:
    """A newer document comes before those that score higher, with the same scores as before."""
    texts = {"old": "Keys are rotated.", "new": "All the keys are rotated."}
    dates = {"old": "2001-01-01", "new": "2999-01-01"}
    aged = [
        Document(text, id=name, metadata={"source": name, "at": dates[name]})
        for name, text in texts.items()
    ]
    settings = {"strategy": strategy, "rerank": {"class": f"{__name__}:Backwards"}}
    settings |= {"mmr_lambda": 1.0}
    recency = {"field": "at", "weight": 0.9}
    with project_of(tmp_path, store=filled(*aged)) as project:
        before = project.query("documents", QUESTION, **settings)
        after = project.query("documents", QUESTION, recency=recency, **settings)
        (first,) = project.query("documents", QUESTION, recency=recency, top_k=1, **settings)
    assert uris(before)[0] != "new"
    if strategy != "mmr":  # the store itself orders the candidates that recency chose
        assert (uris(after)[0], first) == ("new", after[0])
    scores = {match.id: match.score for match in after}
    assert scores == {match.id: match.score for match in before}


def test_what_is_found_is_judged_and_freed_of_repeats(tmp_path: Path) -> None:
    """`min_score`, deduplication, a reranker and stages work as for other knowledge bases."""
    copy = Document("Lunch is  served at noon.", metadata={"source": "copy.md"})
    with Project.build(vector_store=existing(filled(copy)), root=tmp_path) as project:
        hits = project.query("documents", QUESTION, top_k=3)
        assert len(hits) == len({" ".join(hit.text.split()) for hit in hits}) == 3
    with project_of(tmp_path) as project:
        assert uris(project.query("documents", QUESTION, min_score=0.3)) == ["keys.md"]
        assert project.query("documents", "snow", min_score=0.3).verdict == "miss"
        assert project.query("documents", QUESTION).verdict == "hit"
    with project_of(
        tmp_path, {"strategy": "rerank", "rerank": {"class": f"{__name__}:Backwards"}, "top_k": 2}
    ) as project:
        best = project.query("documents", QUESTION)
        assert uris(best) == ["b.pdf", best.matches[1].metadata["uri"]]
        assert set(best.matches[0].scores) == {"dense", "rerank"}
    stages = [{"min_score": 0.3, "strategy": "mmr"}]
    with project_of(tmp_path, {"min_score": 0.9, "stages": stages}) as project:
        staged = project.query("documents", QUESTION)
        assert (staged.stage, staged.strategy, uris(staged)) == (1, "mmr", ["keys.md"])


def test_every_way_to_ask(project: Project) -> None:
    """A retriever, a prompt, a tool, middleware and an answer return the same passages."""
    documents = project.retriever("documents", top_k=1).invoke(QUESTION)
    assert [(document.id, document.metadata["uri"]) for document in documents] == [("a", "keys.md")]
    assert "[1] keys.md" in project.prompt(top_k=1).invoke(QUESTION).to_string()
    assert "keys.md" in str(project.tool("documents").invoke({"query": QUESTION}))
    answer = project.generate(QUESTION)
    assert (answer.text, answer.verdict) == ("Every month [1].", "hit")
    assert [(citation.marker, citation.uri) for citation in answer.citations] == [
        ("[1]", "keys.md")
    ]
    model = GenericFakeChatModel(messages=iter([AIMessage("Every month [1].")]))
    agent = create_agent(model, [], middleware=[project.middleware("documents")])
    last = agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1]
    assert last.response_metadata["lorebind"]["citations"][0]["uri"] == "keys.md"
    text = project.prompt().invoke("When are invoices sent?").to_string()
    assert "b.pdf, page 1" in text


def test_values_are_not_called_unknown(tmp_path: Path) -> None:
    """Nobody can list what the store has, so a tool says only that nothing was found."""
    base = {"id": "documents", "tool_filters": ["source"]}
    theirs = existing(filled())
    with Project.build({"knowledge_bases": [base]}, vector_store=theirs, root=tmp_path) as project:
        tool = project.tool("documents")
        assert "keys.md" in tool.invoke({"query": QUESTION, "source": "keys.md"})
        reply = tool.invoke({"query": QUESTION, "source": "none.md"})
    assert reply.startswith("Nothing was found")


def test_it_is_explained(project: Project) -> None:
    """It is searched by similarity, and no match is weak, because the embedder is unknown."""
    (binding,) = project.explain()
    assert (binding.settings.strategy, binding.weak_below) == ("similarity", None)


def test_both_colours_and_many_threads(project: Project) -> None:
    """Sync and async calls may run at the same time, from the first use on and after closing."""

    async def ask() -> list[list[str]]:
        queries = (project.aquery("documents", QUESTION) for _ in range(8))
        return [uris(hits) for hits in await asyncio.gather(*queries)]

    with ThreadPoolExecutor(8) as pool:
        blocking = list(pool.map(lambda _: uris(project.query("documents", QUESTION)), range(16)))
    project.close()
    assert len({tuple(row) for row in [*blocking, *asyncio.run(ask())]}) == 1
    project.close()
    assert uris(project.query("documents", QUESTION)) == blocking[0]


def test_wrappers(tmp_path: Path) -> None:
    """A cache keeps no results that may change unnoticed, and foreign ids are accepted."""
    store = filled()
    declared = {"wrappers": [{"type": "cache"}, {"type": "isolation"}]}
    with Project.build(declared, vector_store=existing(store), root=tmp_path) as project:
        first = uris(project.query("documents", QUESTION))
        assert uris(project.query("documents", QUESTION)) == first
        store.add_documents([Document("Keys are rotated often.", metadata={"source": "new.md"})])
        assert "new.md" in uris(project.query("documents", QUESTION))


class Silent(InMemoryVectorStore):
    """A store that does not expose its embedder."""

    @property
    def embeddings(self) -> None:  # type: ignore[override]
        return None


def test_a_store_that_does_not_tell_its_embedder(tmp_path: Path) -> None:
    """The project's embedder is assumed to be the store's own."""
    store = Silent(WORDS)
    store.add_documents(DOCUMENTS)
    with Project.build(vector_store=existing(store), embedder=WORDS, root=tmp_path) as project:
        assert uris(project.query("documents", QUESTION, strategy="mmr"))[0] == "keys.md"


def test_the_service_searches_it_by_similarity(project: Project) -> None:
    """Similarity is used even if no binding is resolved."""
    result = asyncio.run(project.knowledge.open("documents").query(QUESTION))
    assert result.strategy == "similarity"


YAML = """\
name: shop
embedders: [{ id: words, provider: hashing }]
vector_dbs:
  - id: theirs
    type: langchain
    existing: true
    MAKER
knowledge_bases:
  - { id: old, vector_db: theirs, EMBEDDER }
  - { id: docs, vector_db: ours, sources: [{ type: markdown_glob, path: "docs/*.md" }] }
knowledge: [{ id: old }]
"""
CLASS = """\
class: langchain_chroma:Chroma
    config: { collection_name: handbook, persist_directory: chroma }
  - { id: ours, type: sqlite }"""
FACTORY = """\
factory: "shop:open_store"
  - { id: ours, type: sqlite }"""
OPENS = """\
from langchain_chroma import Chroma

def open_store(embedding):
    return Chroma("handbook", embedding, persist_directory="chroma")
"""
OPENS_ITSELF = """\
from langchain_chroma import Chroma
from lorebind_knowledge.embedders.hashing import HashingEmbedder
from lorebind_knowledge.collection import LorebindEmbeddings

def open_store():
    words = LorebindEmbeddings(HashingEmbedder(dimension=256))
    return Chroma("handbook", words, persist_directory="chroma")
"""


@pytest.fixture(
    params=[
        (CLASS, "", "", 0.1),
        (FACTORY, OPENS, "embedder: words", 0.1),
        (FACTORY, OPENS_ITSELF, "", None),
    ]
)
def shop(request: pytest.FixtureRequest, empty_cli: Cli) -> tuple[Cli, float | None]:
    """Return a project whose YAML names what opens the store, and a hit score."""
    maker, code, embedder, level = request.param
    yaml = YAML.replace("MAKER", maker).replace("EMBEDDER", embedder)
    # Chroma caches what it has opened by the given path.
    folder = str(empty_cli.root / "chroma")
    code = code.replace('"chroma"', repr(folder))
    files = {"docs/a.md": "# A\n\nSnow falls.\n", "shop.py": code}
    write(empty_cli.root, files)
    yaml = yaml.replace("persist_directory: chroma", f"persist_directory: {folder}")
    (empty_cli.root / "lorebind.yaml").write_text(yaml)
    Chroma("handbook", WORDS, persist_directory=folder).add_documents(DOCUMENTS)
    return empty_cli, level


def test_files_name_it(shop: tuple[Cli, float | None]) -> None:
    """A file can name its class, or a function of the project with or without an embedder."""
    cli, level = shop
    done = cli("knowledge", "query", "old", "-q", QUESTION, "--output", "json", "--top-k", "1")
    assert done.code == 0, done
    (match,) = json.loads(done.out)["matches"]
    assert (match["id"], match["metadata"]["uri"]) == ("a", "keys.md")
    done = cli("ask", ".", QUESTION, "--trust", "--output", "json")
    assert done.code == 0, done
    answer = json.loads(done.out)
    assert (answer["citations"][0]["uri"], len(answer["ingests"])) == ("keys.md", 1)
    done = cli("bindings", "explain", "--output", "json")
    assert done.code == 0, done
    assert '"similarity"' in done.out
    with Project.load(cli.root) as project:
        assert [binding.weak_below for binding in project.explain()] == [level]
    done = cli("doctor", "--output", "json")
    parts = {finding["part"]: finding for finding in json.loads(done.out)["findings"]}
    theirs = parts["knowledge base old"]
    assert (theirs["status"], "vector database theirs" in parts) == ("ok", False)
    assert theirs["detail"] == "filled by others, can be searched; its scores are squared distances"


def test_commands_about_all_pass_over_it(shop: tuple[Cli, float | None]) -> None:
    """Commands for all knowledge bases skip it; by name, it is refused."""
    cli, _ = shop
    for command in ("plan", "ingest"):
        assert cli("knowledge", command).code == 0
        done = cli("knowledge", command, "old")
        assert (done.code, "is filled by another program" in done.err) == (1, True), done
    done = cli("knowledge", "list")
    assert (done.code, "by others" in done.out) == (0, True), done
    assert cli("knowledge", "get", "old").code == 0
    assert cli("validate").code == 0
    exported = cli("knowledge", "export", "old")
    assert (exported.code, "sources" in exported.out) == (0, False), exported
    (cli.root / "exported.yaml").write_text(exported.out)
    assert cli("knowledge", "apply", "-f", "exported.yaml").code == 0
    assert cli("knowledge", "purge").code == 0


@pytest.mark.parametrize("strategy", ["similarity", "mmr", "rerank"])
def test_what_ranks_them(tmp_path: Path, strategy: str) -> None:
    """A notice says that only vectors count, if other knowledge bases would also count words."""
    reranker = {"class": f"{__name__}:Backwards"} if strategy == "rerank" else None
    with project_of(tmp_path, {"strategy": strategy, "rerank": reranker}) as project:
        notices = project.query("documents", QUESTION).notices
    if strategy == "similarity":
        assert notices == []
    else:
        (notice,) = notices
        assert f"no word index: '{strategy}' ranks by vectors only" in notice


class Alike:
    """A reranker that gives all passages the same score."""

    def rerank(self, question: str, texts: list[str]) -> list[float]:
        return [0.5 for _ in texts]


@pytest.mark.parametrize("strategy", ["similarity", "mmr", "rerank"])
def test_a_document_that_would_fill_the_list(tmp_path: Path, strategy: str) -> None:
    """Documents are identified by source; a passage without one counts as a document of its own."""
    source = {"Ada": "keys.md", "Bo": "keys.md", "Cy": "keys.md", "Di": "", "Ed": ""}
    more = [
        Document(f"How often are keys rotated, {name}?", id=name, metadata={"source": uri})
        for name, uri in source.items()
    ]
    reranker = {"class": f"{__name__}:Alike"} if strategy == "rerank" else None
    way = {"strategy": strategy, "rerank": reranker, "mmr_lambda": 1.0}

    def search(**settings: Any) -> list[str]:
        with project_of(tmp_path, way | settings, store=filled(*more)) as project:
            return uris(project.query("documents", QUESTION))

    assert search(top_k=4).count("keys.md") > 1
    assert search(top_k=3, max_per_document=1).count("keys.md") == 1
    assert search(top_k=3, max_per_document=1) == search(top_k=7, max_per_document=1)[:3]
