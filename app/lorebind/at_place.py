"""A place of a project, said once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import sync

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from lorebind.langchain_methods import Faces
    from lorebind_bindings import (
        Answer,
        AnswerStream,
        KnowledgeMiddleware,
        KnowledgePrompt,
        LorebindRetriever,
    )


class AtPlace:
    """The methods of `Faces` for one place; what they take beside it, they take here too."""

    def __init__(self, faces: Faces, kb_ids: tuple[str, ...], place: dict[str, Any]) -> None:
        self._faces, self._kb_ids, self._place = faces, kb_ids, place

    def retriever(self, **settings: Any) -> LorebindRetriever:
        return self._faces.retriever(*self._kb_ids, **self._place, **settings)

    def prompt(self, **settings: Any) -> KnowledgePrompt:
        return self._faces.prompt(*self._kb_ids, **self._place, **settings)

    def tool(self, **settings: Any) -> BaseTool:
        return self._faces.tool(*self._kb_ids, **self._place, **settings)

    def middleware(self, **settings: Any) -> KnowledgeMiddleware:
        return self._faces.middleware(*self._kb_ids, **self._place, **settings)

    async def agenerate(self, question: str, **request: Any) -> Answer:
        return await self._faces.agenerate(question, *self._kb_ids, **self._place, **request)

    def stream(self, question: str, **request: Any) -> AnswerStream:
        return self._faces.stream(question, *self._kb_ids, **self._place, **request)

    generate = sync(agenerate)
    astream = stream
