"""Searches in LangChain callbacks and traces: each is a run of type `retriever`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage

from lorebind import Project, StoreError
from tests.bindings.helpers import Agentic, Scripted

from .shop import KEYS, OLD, QUESTION, shop
from .test_middleware import break_index


class Heard(BaseCallbackHandler):
    """Records the searches that it receives."""

    def __init__(self) -> None:
        self.queries: list[tuple[str, UUID | None]] = []
        self.results: list[list[str]] = []
        self.failed: list[BaseException] = []

    def on_retriever_start(
        self, serialized: Any, query: str, *, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        self.queries.append((query, parent_run_id))

    def on_retriever_end(self, documents: Any, **kwargs: Any) -> None:
        hits: list[Document] = list(documents)
        self.results.append([document.page_content for document in hits])

    def on_retriever_error(self, error: BaseException, **kwargs: Any) -> None:
        self.failed.append(error)


def agent(project: Project, config: Any) -> None:
    agent = create_agent(
        Agentic(says=[AIMessage("ok")]), [], middleware=[project.middleware("guide")]
    )
    agent.invoke({"messages": [("user", QUESTION)]}, config)


FACES: dict[str, tuple[bool, Callable[[Project, Any], object]]] = {
    "prompt": (True, lambda project, config: project.prompt("guide").invoke(QUESTION, config)),
    "aprompt": (
        True,
        lambda project, config: asyncio.run(project.prompt("guide").ainvoke(QUESTION, config)),
    ),
    "generate": (
        False,
        lambda project, config: project.generate(QUESTION, model=Scripted(), config=config),
    ),
    "stream": (
        False,
        lambda project, config: list(
            project.stream(QUESTION, model=Agentic(says=[AIMessage("ok")]), config=config)
        ),
    ),
    "tool": (True, lambda project, config: project.tool("guide").invoke(QUESTION, config)),
    "retriever": (
        False,
        lambda project, config: project.retriever("guide").invoke(QUESTION, config),
    ),
    "agent": (True, agent),
}


@pytest.mark.parametrize("face", FACES)
def test_each_face_tells_of_its_search(tmp_path: Path, face: str) -> None:
    """Each search is reported once, with question and documents, below its own run."""
    heard = Heard()
    is_below, ask = FACES[face]
    with shop(tmp_path) as project:
        ask(project, {"callbacks": [heard]})
    ((question, parent),) = heard.queries
    assert (question, parent is not None) == (QUESTION, is_below)
    assert heard.results == [[KEYS, OLD]]


def test_a_search_that_fails(tmp_path: Path) -> None:
    """The error is reported too."""
    heard = Heard()
    with shop(tmp_path) as project:
        break_index(tmp_path)
        with pytest.raises(StoreError):
            project.generate(QUESTION, model=Scripted(), config={"callbacks": [heard]})
    assert [type(error) for error in heard.failed] == [StoreError]
