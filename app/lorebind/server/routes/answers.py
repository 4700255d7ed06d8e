"""`/answers`: a chat model answers a question from the knowledge, with citations."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from lorebind.plain_data import as_data
from lorebind.server.answers import Answered, Prompt
from lorebind.server.bodies import Body, Whole
from lorebind.server.etags import json_response
from lorebind.server.event_streams import MEDIA_TYPE, Ahead, encode, events_of, prefers_events
from lorebind.server.problems import ProblemError
from lorebind.server.request_tasks import while_connected
from lorebind.server.routes.queries import Question, Settings
from lorebind.server.server import SeenProject, TheServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from lorebind_bindings import Answer, AnswerStream
    from lorebind_bindings.injecting import PromptPreview

PATH = "/answers"

router = APIRouter(tags=["answers"])


class Message(Body):
    """An earlier message of the conversation."""

    role: Literal["user", "assistant"]
    content: str = Field(max_length=100_000)


class AnswerRequest(Settings):
    """A question, the place where it is asked, and the conversation before it."""

    question: Question
    history: list[Message] = Field([], max_length=200, description="Earlier messages, in order.")
    knowledge_bases: list[str] = Field(
        [],
        max_length=100,
        description="The ids of the knowledge bases to search. By default those that are bound at "
        "the place; without a place those that the project binds, or else all.",
    )
    workflow: str | None = Field(None, description="The workflow in which ids are looked up.")
    task: str | None = Field(None, description="The task of the workflow that asks.")
    agent: str | None = Field(None, description="The agent that answers.")
    max_tokens: Annotated[int, Field(ge=1), Whole] | None = Field(
        None, description="The maximum number of tokens of all passages together."
    )
    dry_run: bool = Field(
        False,
        description="Do not call the model: return the `messages` that it would get, their "
        "`tokens`, and the passages that are omitted, each with the reason.",
    )

    @property
    def arguments(self) -> dict[str, Any]:
        history = [{"role": message.role, "content": message.content} for message in self.history]
        return {**self.settings, "max_tokens": self.max_tokens, "history": history}


_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["retrieval", "text", "citation", "end", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; or, if `Accept` prefers them, events: `retrieval` has the "
        "`results` of the searches, each `text` a part of the answer, each `citation` a passage "
        "when the text first cites it, and `end` the whole answer. An `error` ends a failed answer",
        "content": {MEDIA_TYPE: {"itemSchema": _EVENT}},
    }
}


@router.post(PATH, response_model=Answered | Prompt, responses=_ANSWERS)
async def answer(
    request: Request, server: TheServer, project: SeenProject, body: AnswerRequest
) -> Any:
    """Search, and let a chat model answer with citations.

    If you disconnect, the model is stopped.
    """
    place = project.at(
        *body.knowledge_bases, workflow=body.workflow, task=body.task, agent=body.agent
    )
    seconds = server.project.config.project.server.answer_seconds
    stopped = ProblemError("draining", "the server stops and cancelled the answer")
    if body.dry_run:
        prompt = await place.stream(body.question, **body.arguments).apreview()
        return json_response({**as_data(prompt), "results": _results(prompt)})
    if prefers_events(request):
        stream = place.stream(body.question, **body.arguments)

        def follow(_: Any) -> Response:
            parts = Ahead(in_time(stream, seconds))
            events = _events(stream, parts)
            return events_of(
                request, server, events, "an answer failed", stopped, close=parts.aclose
            )

        search = stream.asearch()
        return await while_connected(request, server.connected, search, stopped, follow)

    def whole(answer: Answer) -> Response:
        return json_response(_data(answer), headers={"Vary": "Accept"})

    work = place.agenerate(body.question, **body.arguments)
    return await while_connected(request, server.connected, work, stopped, whole)


async def _events(stream: AnswerStream, parts: Ahead[str]) -> AsyncGenerator[bytes, None]:
    yield encode("retrieval", {"results": _results(stream)})
    cited = 0
    async for part in parts:
        yield encode("text", {"text": part})
        if "]" in part:  # a marker may be complete now
            citations = stream.citations
            for citation in citations[cited:]:
                yield encode("citation", citation.as_data())
            cited = len(citations)
    yield encode("end", _data(stream.answer))


async def in_time(stream: AnswerStream, seconds: float) -> AsyncGenerator[str, None]:
    """Yield the parts of an answer.

    Raises:
        ProblemError: it takes longer than `seconds`.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    async with aclosing(stream.__aiter__()) as parts:
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    part = await anext(parts, None)
            except TimeoutError:
                detail = f"the answer took longer than {seconds:g} s and was cancelled"
                raise ProblemError("timeout", detail) from None
            if part is None:
                return
            yield part


def _data(answer: Answer) -> dict[str, Any]:
    names = ("text", "verdict", "citations", "unknown_markers", "dropped", "usage", "output")
    data = {name: as_data(getattr(answer, name)) for name in names}
    return data | {"results": _results(answer)}


def _results(found: Answer | AnswerStream | PromptPreview) -> dict[str, Any]:
    return {result.binding.id: as_data(result.result) for result in found.results}
