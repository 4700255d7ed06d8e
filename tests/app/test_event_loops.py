"""LangChain clients next to Lorebind: after any sequence of sync and async calls, the next works.

The clients are real, and share their connections as they always do. The server keeps connections
open, except for calls whose event loop is about to end, because no LangChain client survives that.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from openai import OpenAI

from lorebind import Project
from lorebind_knowledge.collection import LorebindVectorStore
from tests.bindings.helpers import write
from tests.knowledge.embedding_server import KEY, EmbeddingServer, Reply, serving

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

PROJECT = """\
name: shop
embedders:
  - id: theirs
    provider: langchain
    class: langchain_openai:OpenAIEmbeddings
    model: small
    api_key: "{{ .env.KEY }}"
    config: { base_url: "{{ .env.URL }}", check_embedding_ctx_length: false, max_retries: 0 }
  - id: ours
    provider: openai
    model: small
    api_key: "{{ .env.KEY }}"
    config: { base_url: "{{ .env.URL }}", retry: { attempts: 1 } }
vector_dbs: [{ id: memory, type: memory }]
models:
  - id: chat
    provider: openai
    model: gpt-4o
    api_key: "{{ .env.KEY }}"
    config: { base_url: "{{ .env.URL }}", max_retries: 0 }
knowledge_bases:
  - id: docs
    embedder: theirs
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
    chunking: { strategy: semantic, semantic: { max_tokens: 64, min_tokens: 16 } }
  - id: notes
    embedder: ours
    sources: [{ type: markdown_glob, path: "docs/*.md" }]
knowledge: [{ id: docs }]
workflows:
  - id: reply
    input: { question: { type: string } }
    tasks: [{ id: say, prompt: "{{ .workflow.input.question }}" }]
"""
SUBJECTS = ("Keys are rotated every ninety days.", "Bills are sent by mail.", "Snow falls in May.")


class Server(EmbeddingServer):
    """A server that also answers chats, always with the same text, in one part or several."""

    keeps = True
    """Whether connections stay open."""

    def answer(self, body: dict[str, Any]) -> Reply:
        headers = {} if self.keeps else {"Connection": "close"}
        if "messages" not in body:
            return Reply(body=super().answer(body).body, headers=headers)
        shared = {"id": "1", "created": 0, "model": body["model"]}
        if not body.get("stream"):
            choice = {"index": 0, "finish_reason": "stop", "message": _message("Hello [1]")}
            return Reply(body=shared | {"object": "chat.completion", "choices": [choice]})
        events = [
            json.dumps(
                shared
                | {"object": "chat.completion.chunk"}
                | {"choices": [{"index": 0, "finish_reason": end, "delta": _message(text)}]}
            )
            for text, end in (("Hello", None), (" [1]", "stop"))
        ]
        text = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])
        return Reply(body=text, headers={"Content-Type": "text/event-stream", **headers})


def _message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Desk:
    """A project, and clients of the same server next to it."""

    def __init__(self, root: Path, server: Server) -> None:
        self.root, self.server, self.calls = root, server, itertools.count()
        write(root, {"lorebind.yaml": PROJECT, "docs/a.md": "\n\n".join(SUBJECTS)})
        self.project = Project.load(root, environ={"KEY": KEY, "URL": server.url})
        url: Any = server.url
        self.llm, self.another = (
            ChatOpenAI(model="gpt-4o", base_url=url, api_key=KEY, max_retries=0)  # type: ignore[arg-type]
            for _ in range(2)
        )
        self.embeddings: Any = OpenAIEmbeddings(
            model="small",
            base_url=server.url,
            api_key=KEY,  # type: ignore[arg-type]  # pydantic makes a secret of it
            check_embedding_ctx_length=False,
            max_retries=0,
        )
        self.agent: Any = None

    def question(self) -> str:
        return f"How are keys rotated, for the {next(self.calls)}. time?"

    def new_text(self) -> None:
        number = next(self.calls)
        text = "\n\n".join(f"{subject} Said {number} times." for subject in SUBJECTS)
        (self.root / "docs/a.md").write_text(text, encoding="utf-8")


# Each operation, sync and async; its result is true if it worked.


def generate(desk: Desk) -> Any:
    return desk.project.generate(desk.question(), model=desk.llm).citations


async def agenerate(desk: Desk) -> Any:
    return (await desk.project.agenerate(desk.question(), model=desk.llm)).citations


def stream(desk: Desk) -> Any:
    left = iter(desk.project.stream(desk.question(), model=desk.llm))
    assert next(left) == "Hello"
    left.close()  # type: ignore[attr-defined]  # it is a generator
    return list(desk.project.stream(desk.question(), model=desk.llm)) == ["Hello", " [1]"]


async def astream(desk: Desk) -> Any:
    left: Any = aiter(desk.project.astream(desk.question(), model=desk.llm))
    assert await anext(left) == "Hello"
    await left.aclose()
    parts = [part async for part in desk.project.astream(desk.question(), model=desk.llm)]
    return parts == ["Hello", " [1]"]


def query(desk: Desk) -> Any:
    return [desk.project.query(name, desk.question()).matches for name in ("docs", "notes")]


async def aquery(desk: Desk) -> Any:
    names = ("docs", "notes")
    return [(await desk.project.aquery(name, desk.question())).matches for name in names]


def ingest(desk: Desk) -> Any:
    desk.new_text()
    return desk.project.ingest("docs").texts_embedded + desk.project.ingest("notes").texts_embedded


async def aingest(desk: Desk) -> Any:
    desk.new_text()
    reports = [await desk.project.aingest(name) for name in ("docs", "notes")]
    return all(report.texts_embedded for report in reports)


def middleware(desk: Desk) -> Any:
    desk.agent = desk.agent or create_agent(desk.llm, middleware=[desk.project.middleware()])
    answer = desk.agent.invoke({"messages": [("user", desk.question())]})["messages"][-1]
    return answer.response_metadata["lorebind"]["citations"]


async def amiddleware(desk: Desk) -> Any:
    desk.agent = desk.agent or create_agent(desk.llm, middleware=[desk.project.middleware()])
    answer = (await desk.agent.ainvoke({"messages": [("user", desk.question())]}))["messages"][-1]
    return answer.response_metadata["lorebind"]["citations"]


def retriever(desk: Desk) -> Any:
    return desk.project.retriever().invoke(desk.question())


async def aretriever(desk: Desk) -> Any:
    return await desk.project.retriever().ainvoke(desk.question())


def everything_else(desk: Desk) -> Any:
    project = desk.project
    assert project.ask(desk.question()).citations
    assert project.run("reply", {"question": desk.question()}).output
    assert project.tool().invoke({"query": desk.question()})
    assert project.prompt().invoke(desk.question())
    assert not [finding for finding in project.doctor() if finding.status == "failed"]
    mine = LorebindVectorStore.from_texts([desk.question()], desk.embeddings)
    return mine.similarity_search(desk.question())


async def aeverything_else(desk: Desk) -> Any:
    project = desk.project
    assert (await project.aask(desk.question())).citations
    assert (await project.arun("reply", {"question": desk.question()})).output
    assert await project.tool().ainvoke({"query": desk.question()})
    assert await project.prompt().ainvoke(desk.question())
    assert not [finding for finding in await project.adoctor() if finding.status == "failed"]
    mine = await LorebindVectorStore.afrom_texts([desk.question()], desk.embeddings)
    return await mine.asimilarity_search(desk.question())


# The ways to call the operations.


def in_thread(work: Callable[[], object]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


@contextmanager
def loop_that_ends(desk: Desk) -> Iterator[None]:
    desk.server.keeps = False
    try:
        yield
    finally:
        desk.server.keeps = True


class Ways:
    """One operation, called in each way."""

    def __init__(
        self, desk: Desk, blocking: Callable[[Desk], Any], awaited: Callable[[Desk], Awaitable[Any]]
    ) -> None:
        self._desk, self._blocking, self._awaited = desk, blocking, awaited

    def sync(self) -> None:
        assert self._blocking(self._desk)

    def thread(self) -> None:
        in_thread(self.sync)

    def loop(self) -> None:
        """Run a new loop, in which the user's own clients are called too."""
        with loop_that_ends(self._desk):
            asyncio.run(self._in_loop())

    def loop_in_thread(self) -> None:
        in_thread(self.loop)

    async def _in_loop(self) -> None:
        await self._by_hand()
        assert await self._awaited(self._desk)
        await self._by_hand()

    async def _by_hand(self) -> None:
        desk = self._desk
        assert (await desk.llm.ainvoke("hello")).text == "Hello [1]"
        assert [part.text async for part in desk.another.astream("hello")]
        assert await desk.embeddings.aembed_query("hello")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server()) as server:
        desk = Desk(tmp_path, server)
        with desk.project:
            yield desk
        for item in gc.get_objects():  # because LangChain never closes them
            if type(item) is OpenAI:
                item.close()


def walk(ways: Sequence[str], length: int) -> list[str]:
    """Call the ways in an order that contains every sequence of this length (de Bruijn)."""
    calls = [ways[-1]] * (length - 1)
    seen = set()
    while True:
        before = calls[1 - length :]
        unseen = [way for way in ways if (*before, way) not in seen]
        if not unseen:
            return calls
        seen.add((*before, unseen[0]))
        calls.append(unseen[0])


@pytest.mark.parametrize(
    "calls",
    [walk(["loop", "sync"], 3), walk(["sync", "thread", "loop_in_thread", "loop"], 2)],
    ids=["threes", "twos"],
)
@pytest.mark.parametrize(
    ("blocking", "awaited"),
    [
        (generate, agenerate),
        (stream, astream),
        (query, aquery),
        (ingest, aingest),
        (middleware, amiddleware),
        (retriever, aretriever),
    ],
    ids=lambda function: function.__name__,
)
def test_every_order(
    desk: Desk,
    blocking: Callable[[Desk], Any],
    awaited: Callable[[Desk], Any],
    calls: Sequence[str],
) -> None:
    """No call makes a later call fail."""
    call_all(desk, calls, blocking, awaited)


def test_everything_else_in_every_order(desk: Desk) -> None:
    """Workflows, tools, prompts, `ask`, `doctor` and live embeddings also work in every order."""
    call_all(desk, walk(["loop", "sync"], 2), everything_else, aeverything_else)


def call_all(
    desk: Desk,
    calls: Sequence[str],
    blocking: Callable[[Desk], Any],
    awaited: Callable[[Desk], Any],
) -> None:
    ways = Ways(desk, blocking, awaited)
    with loop_that_ends(desk):
        asyncio.run(aingest(desk))
    for way in calls:
        getattr(ways, way)()
