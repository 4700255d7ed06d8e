"""Spans and events of model calls and tool calls.

Spans are named by OpenTelemetry's conventions for generative AI:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-agent-spans/
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import ModelError
from lorebind_knowledge.events import Event, kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.messages.tool import ToolCall

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.events import Events, Span


class Observed:
    """The attributes that the span of a call gets at its end, and the data of its event."""

    def __init__(self, attributes: dict[str, Any], data: dict[str, Any]) -> None:
        self.attributes, self.data = attributes, data

    def reply(self, message: AIMessage | None) -> None:
        """Take the tokens and the model's name from a message; without one, do nothing."""
        if message is None:
            return
        usage: Mapping[str, Any] = message.usage_metadata or {}
        for name in ("input_tokens", "output_tokens"):
            if tokens := int(usage.get(name) or 0):
                self.data[name] = tokens
                self.attributes[f"gen_ai.usage.{name}"] = tokens
        if answered_by := message.response_metadata.get("model_name"):
            self.attributes["gen_ai.response.model"] = str(answered_by)

    def fail(self, kind: str) -> None:
        """Name the failure, if the exception that ends the block does not."""
        self.data["kind"] = self.attributes["error.type"] = kind


@contextmanager
def answer_span(
    events: Events, bindings: Iterable[ResolvedBinding], *, is_current: bool = True
) -> Iterator[Span]:
    """Open the span of an answer within a block, around its searches and calls.

    Args:
        events: open the span.
        bindings: the knowledge bases that are searched.
        is_current: False if the block yields to a caller; see `Span.current`.
    """
    attributes = {"lorebind.kb_ids": [binding.id for binding in bindings]}
    with events.span("answer", attributes, is_current=is_current) as span:
        yield span


def describe_answer(span: Span, verdict: str, citations: Collection[Any]) -> None:
    """Add to a span how an answer ended, without its texts."""
    span["lorebind.verdict"] = verdict
    span["lorebind.citations"] = len(citations)


@contextmanager
def model_call(
    events: Events, model: BaseChatModel, *, is_current: bool = True
) -> Iterator[Observed]:
    """Observe a call of a chat model within a block.

    Args:
        events: receive `model_called`.
        model: the model.
        is_current: False if the block yields to a caller, whose spans are no part of the call.
    """
    provider, name = _named(model)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": name,
    }
    data = {"provider": provider, "model": name, "input_tokens": 0, "output_tokens": 0}
    with observe(
        events,
        "model_called",
        f"chat {name}",
        attributes,
        data,
        is_call=True,
        is_current=is_current,
    ) as observed:
        try:
            yield observed
        except ModelError as error:  # the provider's exception says more
            observed.fail(type(error.__cause__ or error).__name__)
            raise


@contextmanager
def tool_call(events: Events, call: ToolCall) -> Iterator[Observed]:
    """Observe a call of a tool within a block, and send `tool_called`."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call["name"],
        "gen_ai.tool.call.id": str(call["id"]),
        "gen_ai.tool.type": "function",
    }
    data = {"tool": call["name"], "status": "success"}
    name = f"execute_tool {call['name']}"
    with observe(events, "tool_called", name, attributes, data) as observed:
        yield observed


@contextmanager
def observe(
    events: Events,
    hook: str,
    name: str,
    attributes: Mapping[str, Any],
    data: dict[str, Any],
    *,
    is_call: bool = False,
    is_current: bool = True,
) -> Iterator[Observed]:
    """Open a span within a block, and send an event at its end.

    Args:
        events: receive the event.
        hook: the name of the event.
        name: the name of the span.
        attributes: the attributes of the span.
        data: the data of the event; `seconds` and `kind` are added.
        is_call: see `Tracer.open_span`.
        is_current: see there too.
    """
    start = time.perf_counter()
    data = {**data, "kind": ""}
    try:
        with events.span(name, attributes, is_call=is_call, is_current=is_current) as more:
            yield Observed(more, data)
    except BaseException as error:
        data["kind"] = data["kind"] or kind_of(error)
        raise
    finally:
        data["seconds"] = time.perf_counter() - start
        events.emit(hook, Event("", data=data))


def _named(model: BaseChatModel) -> tuple[str, str]:
    """Return the provider and the name of a model, as LangChain's traces show them."""
    traced: Mapping[str, Any] = model._get_ls_params()
    kind = type(model).__name__
    return str(traced.get("ls_provider") or kind), str(traced.get("ls_model_name") or kind)
