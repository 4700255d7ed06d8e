"""`/v1/models` and `/v1/chat/completions`: the project for clients of OpenAI's API.

The shapes are those of https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, model_validator

from lorebind.server.bodies import Body
from lorebind.server.etags import json_response
from lorebind.server.event_streams import MEDIA_TYPE, Ahead, events_of
from lorebind.server.problems import ProblemError, openai_error
from lorebind.server.request_tasks import while_connected
from lorebind.server.routes.answers import in_time
from lorebind.server.server import SeenProject, TheServer
from lorebind_config.declarations.base import refused
from lorebind_config.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.responses import Response

    from lorebind.project import Project
    from lorebind_bindings import Answer, AnswerStream
    from lorebind_prompts import Mention

MODELS, COMPLETIONS = "/v1/models", "/v1/chat/completions"

_ERROR: dict[str, Any] = {
    "description": "An error in OpenAI's shape.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["message", "type", "param", "code"],
                        "properties": {"message": {"type": "string"}, "type": {"type": "string"}},
                    }
                },
            }
        }
    },
}
_CHUNKS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; or with `stream`, its chunks",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}

router = APIRouter(tags=["OpenAI"], responses={"4XX": _ERROR, "5XX": _ERROR})

_REFUSED = {
    "tools": "the agents of the project have their tools in its YAML",
    "functions": "the agents of the project have their tools in its YAML",
    "logprobs": "answers have no probabilities",
    "top_logprobs": "answers have no probabilities",
    "audio": "answers are text",
}
"""The keys that are refused, with the reason."""
_SAMPLING = (
    *("temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty"),
    "reasoning_effort",
)


class Part(Body):
    """A part of a message."""

    model_config = ConfigDict(extra="ignore")

    type: str
    text: str = ""
    image_url: dict[str, Any] | None = None


class ChatMessage(Body):
    """A message of the conversation."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""

    @property
    def attachments(self) -> list[dict[str, Any]]:
        """The images, as content blocks of LangChain."""
        parts = self.content if isinstance(self.content, list) else []
        return [
            {"type": "image_url", "image_url": part.image_url} for part in parts if part.image_url
        ]

    @model_validator(mode="after")
    def _is_readable(self) -> ChatMessage:
        parts = self.content if isinstance(self.content, list) else []
        for part in parts:
            if part.type not in ("text", "image_url"):
                raise refused(f"a part of type {part.type!r} cannot be read", "send text or images")
        return self


class StreamOptions(Body):
    """Options of a stream."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class CitationOptions(Body):
    """How an answer cites, for clients that show only its text."""

    list: bool = Field(False, description="Whether the text ends with a list of its sources.")


class ChatRequest(Body):
    """A request for an answer. Unknown keys, `user` and `metadata` are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(description="One of `/v1/models`: the project, an agent or a chat model.")
    messages: list[ChatMessage] = Field(min_length=1, max_length=1000)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    response_format: dict[str, Any] | None = Field(
        None, description="`{type: text}`, or a `json_schema` that the answer must match."
    )
    citations: CitationOptions = CitationOptions()

    @model_validator(mode="before")
    @classmethod
    def _can_be_answered(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            for name, reason in _REFUSED.items():
                if data.get(name):
                    raise refused(f"{name!r} is not supported", reason, name)
            if data.get("n") not in (None, 1):
                raise refused("'n' is not supported", "each request has one answer", "n")
        return data

    @model_validator(mode="after")
    def _asks(self) -> ChatRequest:
        last = self.messages[-1]
        if last.role != "user" or not (last.text.strip() or last.attachments):
            hint = "end with a message of the user that has text"
            raise refused("the last message asks nothing", hint, "messages")
        form = self.response_format or {"type": "text"}
        if form.get("type") not in ("text", "json_schema"):
            hint = "send a json_schema"
            detail = f"the response_format {form.get('type')!r} is not supported"
            raise refused(detail, hint, "response_format")
        return self

    @property
    def arguments(self) -> dict[str, Any]:
        """The fields of a `Request` that the messages and settings make."""
        *history, last = self.messages
        said = [message for message in history if message.role in ("user", "assistant")]
        names = (name for name in _SAMPLING if getattr(self, name) is not None)
        settings = {name: getattr(self, name) for name in names}
        if most := self.max_completion_tokens or self.max_tokens:
            settings["max_tokens"] = most
        schema = ((self.response_format or {}).get("json_schema") or {}).get("schema")
        return {
            "history": [{"role": item.role, "content": item.text} for item in said],
            "attachments": last.attachments,
            "model_settings": settings,
            "output_schema": schema,
        }

    @property
    def instructions(self) -> str:
        texts = [
            message.text for message in self.messages if message.role in ("system", "developer")
        ]
        return "\n\n".join(filter(None, texts))


@router.get(MODELS)
async def list_models(project: SeenProject) -> Any:
    """List what answers here: the project, its agents and its chat models."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": project.name}
        for name in _models(project)
    ]
    return {"object": "list", "data": data}


@router.get(f"{MODELS}/{{model_id:path}}")
async def get_model(project: SeenProject, model_id: str) -> Any:
    """Return one of the models."""
    _check_model(project, model_id)
    return {"id": model_id, "object": "model", "created": 0, "owned_by": project.name}


@router.post(COMPLETIONS, responses=_CHUNKS)
async def complete(
    request: Request, server: TheServer, project: SeenProject, body: ChatRequest
) -> Any:
    """Answer the last message, with the project's knowledge, whole or as chunks.

    If you disconnect, the model is stopped.
    """
    question = body.messages[-1].text or "?"
    place, arguments = _place(project, body)
    stopped = ProblemError("draining", "the server stops and cancelled the answer")
    if body.stream:
        stream = place.stream(question, **arguments)
        seconds = server.project.config.project.server.answer_seconds

        def follow(_: Any) -> Response:
            parts = Ahead(in_time(stream, seconds))
            chunks = _chunks(stream, body, parts)
            return events_of(
                request, server, chunks, "an answer failed", stopped, _error, parts.aclose
            )

        search = stream.asearch()
        return await while_connected(request, server.connected, search, stopped, follow)

    def whole(answer: Answer) -> Response:
        text = answer.text + _sources(answer, body)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        message["annotations"] = _annotations(answer.mentions)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return json_response(
            {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(answer)}
        )

    return await while_connected(
        request, server.connected, place.agenerate(question, **arguments), stopped, whole
    )


def _models(project: Project) -> list[str]:
    """Return the names of what can answer; of equal names, the first one answers."""
    config = project.config
    knowledge = [project.name] if config.project.knowledge_bases else []
    models = [model.id for model in config.project.models_or_default]
    return list(dict.fromkeys([*knowledge, *config.agents, *models]))


def _check_model(project: Project, name: str) -> None:
    known = _models(project)
    if name not in known:
        detail = f"there is no model {name!r}; {did_you_mean(name, known)}"
        raise ProblemError("not_found", detail, {"openai_code": "model_not_found"})


def _place(project: Project, body: ChatRequest) -> tuple[Any, dict[str, Any]]:
    """Return where the question is asked, and the arguments of the answer."""
    name, arguments = body.model, body.arguments
    _check_model(project, name)
    instructions = [body.instructions]
    place: Any = project  # short forms of `at()`, without its check
    if name == project.name and project.config.project.knowledge_bases:
        pass
    elif name in project.config.agents:
        place = project.at(agent=name)
        agent = project.config.agents[name]
        instructions.insert(0, agent.instructions)
        if arguments["output_schema"] is None:
            del arguments["output_schema"]
    else:  # only the model, which clients use for titles and tags
        arguments |= {"model": name, "retrieved_contexts": ()}
    return place, {**arguments, "instructions": "\n\n".join(filter(None, instructions))}


async def _chunks(
    stream: AnswerStream, body: ChatRequest, parts: Ahead[str]
) -> AsyncGenerator[bytes, None]:
    head = _head(body, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _data({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    async for part in parts:
        yield chunk({"content": part})
    answer = stream.answer
    if sources := _sources(answer, body):
        yield chunk({"content": sources})
    yield chunk({"annotations": _annotations(answer.mentions)}, "stop")
    if body.stream_options is not None and body.stream_options.include_usage:
        yield _data({**head, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def _head(body: ChatRequest, kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": body.model}


def _annotations(mentions: Sequence[Mention]) -> list[dict[str, Any]]:
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "url": mention.citation.url,
                "title": mention.citation.title or mention.citation.label,
                "start_index": mention.start,
                "end_index": mention.end,
            },
        }
        for mention in mentions
    ]


def _sources(answer: Answer, body: ChatRequest) -> str:
    """Return the list of sources that a client wants at the end of the text."""
    if not body.citations.list or not answer.citations:
        return ""
    lines = [f"{citation.marker} {citation.label}" for citation in answer.citations]
    return "\n\n" + "\n".join(["Sources:", *lines])


def _usage(answer: Answer) -> dict[str, int]:
    """Return the tokens that the model reported, or else those that were counted."""
    reported = answer.usage.get("model", {})
    prompt = reported.get("input_tokens", answer.usage["prompt_tokens"])
    completion = reported.get("output_tokens", answer.usage["completion_tokens"])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _error(problem: ProblemError) -> bytes:
    return _data(openai_error(problem)[1])


def _data(data: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
