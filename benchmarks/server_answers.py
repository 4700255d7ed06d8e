"""The latency of answers over HTTP, compared with `Project.generate` in this process.

The server is on a Unix socket, and the model waits 300 ms before its first word. Both are asked in
turn. Then 64 clients stream at once, and each stream is compared with the text of the model.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lorebind import Project

if TYPE_CHECKING:
    import httpx

QUESTION = "How long do the words wait?"
STREAMS = 64
MOST_TIMES, MOST_LATER_MS = 1.15, 5.0
TEXT = " ".join(f"word{number}" for number in range(60))

MODEL = """\
import asyncio

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class Waiting(BaseChatModel):
    says: str

    @property
    def _llm_type(self):
        return "waiting"

    def _generate(self, messages, *_, **__):
        raise NotImplementedError

    async def _agenerate(self, messages, *_, **__):
        await asyncio.sleep(0.3)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.says))])

    async def _astream(self, messages, *_, **__):
        await asyncio.sleep(0.3)
        for number, word in enumerate(self.says.split(" ")):
            text = f" {word}" if number else word
            yield ChatGenerationChunk(message=AIMessageChunk(text))
            await asyncio.sleep(0.002)
"""


def write_project(root: Path) -> None:
    (root / "waiting.py").write_text(MODEL)
    (root / "docs").mkdir()
    for number in range(50):
        (root / "docs" / f"{number}.md").write_text(f"# Part {number}\n\nWords wait {number} s.\n")
    source = {"type": "markdown_glob", "path": "docs/*.md"}
    model = {"id": "default", "provider": "langchain", "class": "waiting:Waiting"}
    declared = {
        "name": "answers",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "knowledge_bases": [{"id": "docs", "sources": [source]}],
        "models": [{**model, "config": {"says": TEXT}}],
    }
    (root / "lorebind.yaml").write_text(yaml.safe_dump(declared))


async def measure(root: Path, api: httpx.AsyncClient, count: int) -> None:
    """Print the latencies of both, and whether each of the streams is whole and in order."""
    async with Project.load(root) as project:
        here, there, first_here, first_there = [], [], [], []
        for number in range(-2, count):  # the first two load what is used once
            began = time.perf_counter()
            assert (await project.agenerate(QUESTION)).text == TEXT
            middle = time.perf_counter()
            answer = await api.post("/answers", json={"question": QUESTION})
            ended = time.perf_counter()
            assert answer.json()["text"] == TEXT
            streams = [await _first(_parts(project)), await _first(_served(api))]
            if number >= 0:
                here.append(middle - began)
                there.append(ended - middle)
                first_here.append(streams[0])
                first_there.append(streams[1])
        _print("an answer", here, there)
        times = statistics.median(there) / statistics.median(here)
        print(f"  {times:.3f} times as long over HTTP (at most {MOST_TIMES})")
        _print("the first word of a stream", first_here, first_there)
        later = statistics.median(first_there) - statistics.median(first_here)
        print(f"  {later * 1000:.1f} ms later over HTTP (at most {MOST_LATER_MS:g})")
    began = time.perf_counter()
    texts = await asyncio.gather(*(_whole(_served(api)) for _ in range(STREAMS)))
    took = time.perf_counter() - began
    whole = sum(text == TEXT for text in texts)
    print(f"{STREAMS} streams at once: {whole} whole and in order, in {took:.2f} s")
    assert whole == STREAMS


def _print(what: str, here: list[float], there: list[float]) -> None:
    for where, seconds in (("in this process", here), ("over HTTP", there)):
        ordered = sorted(seconds)
        p90 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
        middle = statistics.median(ordered)
        print(f"{what}, {where}: p50 {middle * 1000:.1f} ms, p90 {p90 * 1000:.1f} ms")


async def _parts(project: Project) -> AsyncIterator[str]:
    async for part in project.stream(QUESTION):
        yield part


async def _served(api: httpx.AsyncClient) -> AsyncIterator[str]:
    body, headers = {"question": QUESTION}, {"Accept": "text/event-stream"}
    async with api.stream("POST", "/answers", json=body, headers=headers) as response:
        response.raise_for_status()
        name = ""
        async for line in response.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data" and name == "text":
                data: dict[str, Any] = json.loads(value)
                yield data["text"]


async def _first(parts: AsyncIterator[str]) -> float:
    """Return the seconds to the first part, and read the others."""
    began = time.perf_counter()
    await anext(parts)
    took = time.perf_counter() - began
    async for _ in parts:
        pass
    return took


async def _whole(parts: AsyncIterator[str]) -> str:
    return "".join([part async for part in parts])
