"""A chat model for the projects of tests: it says what it is told to, word by word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class Talking(BaseChatModel):
    """Says its text, and writes a file `stopped` if it is stopped before the end."""

    says: str = "Within 30 days [1]. See also [7]."
    seconds: float = 0.0
    """The time before each word."""

    @property
    def _llm_type(self) -> str:
        return "talking"

    def _words(self) -> Iterator[str]:
        first, *others = self.says.split(" ")
        yield first
        yield from (f" {word}" for word in others)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.says))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        text = "".join([chunk.text async for chunk in self._astream(messages)])
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        try:
            for word in self._words():
                await asyncio.sleep(self.seconds)
                yield ChatGenerationChunk(message=AIMessageChunk(word))
        except (asyncio.CancelledError, GeneratorExit):
            Path(__file__).with_name("stopped").touch()
            raise
