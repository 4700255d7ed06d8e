"""Small projects on disk, and scripted chat models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from lorebind_bindings import BindingScope, ModelPool, ResolvedBinding
from lorebind_config.reading.loaded import LoadedProject
from lorebind_prompts import EstimateCounter, TokenCounter

PARTS = """\
embedders: [{ id: words, provider: hashing }]
vector_dbs: [{ id: file, type: sqlite }]
"""
"""An embedder and a vector database that need no model and no server."""


def write(root: Path, files: dict[str, str]) -> Path:
    """Write dedented texts below a folder, and return the folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return root


def resolve(loaded: LoadedProject, **place: str) -> list[ResolvedBinding]:
    """Return the bindings in effect at a place of a project."""
    return BindingScope(loaded, **place).resolve()  # type: ignore[arg-type]


def line_of(path: Path, text: str) -> int:
    """Return the number of the only line in a file that contains this text, counted from 1."""
    lines = path.read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, start=1) if text in line]
    return number


class Scripted(BaseChatModel):
    """Returns its lines in turn, then the last one again, and records its prompts."""

    says: list[str] = Field(default_factory=lambda: ["ok"])
    error: Any = None
    """Raised instead of returning an answer."""
    heard: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if self.error is not None:
            raise self.error
        text = self.says[min(len(self.heard), len(self.says) - 1)]
        self.heard.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class Echo(BaseChatModel):
    """Repeats the last line of its prompt in capitals, after a pause in which others can run."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        line = str(messages[-1].text).splitlines()[-1]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(line.upper()))])

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:
        await asyncio.sleep(0.01)
        return self._generate(messages)


class OneModel(ModelPool):
    """A pool in which every model is this one."""

    def __init__(self, model: BaseChatModel) -> None:
        self.model = model
        self.asked_for: list[str | None] = []

    def get(self, model_id: str | None = None) -> tuple[BaseChatModel, TokenCounter]:
        self.asked_for.append(model_id)
        return self.model, EstimateCounter()


class WordCounter:
    """Counts words, which a test can easily repeat."""

    name = "words"
    exact = True

    def count(self, text: str) -> int:
        return len(text.split())


class FailingQuestions(Embeddings):
    """Embeds documents, but raises an outage for questions."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if text == "dimension":
            return [1.0, 0.0]
        raise ConnectionError("the embedding service is down")


class Agentic(BaseChatModel):
    """Returns its messages in turn, including tool calls, and records its input."""

    says: list[AIMessage]
    heard: list[list[BaseMessage]] = Field(default_factory=list)
    offered: list[tuple[list[str], Any]] = Field(default_factory=list)
    """The names of the tools and the tool choice of each call."""

    @property
    def _llm_type(self) -> str:
        return "agentic"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        names = [tool["name"] if isinstance(tool, dict) else tool.name for tool in tools]
        return self.bind(tool_names=names, **kwargs)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        message = self.says[len(self.heard)]
        self.heard.append(list(messages))
        self.offered.append((kwargs.get("tool_names", []), kwargs.get("tool_choice")))
        return ChatResult(generations=[ChatGeneration(message=message)])


def calls(*queries: str, tool: str) -> AIMessage:
    """Return a message that calls a tool once per query, all in parallel."""
    return AIMessage(
        "",
        tool_calls=[
            {"name": tool, "args": {"query": query}, "id": f"{tool}-{query}"} for query in queries
        ],
    )
