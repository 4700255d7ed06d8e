"""`basic`: a prompt that a model answers with the bound knowledge."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lorebind_bindings.agent_tools import agent_request, tool_bindings
from lorebind_bindings.answering import AnswerStream, Request, answer
from lorebind_bindings.prompt_template import Prompt
from lorebind_bindings.resolver import BindingScope
from lorebind_bindings.workflow.results import Outcome
from lorebind_config.templates import fill, injected_variable
from lorebind_knowledge.plumbing.bridge import call
from lorebind_prompts.rendering.blocks import without_imitations
from lorebind_prompts.tokens import TiktokenCounter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import ToolMessage
    from langchain_core.messages.tool import ToolCall

    from lorebind_bindings.answering import Answer
    from lorebind_bindings.models import ModelPool
    from lorebind_bindings.retrieving import BoundResult
    from lorebind_bindings.workflow.running import Context
    from lorebind_prompts import TokenCounter


_LONGEST_REPLY = 1000
"""Maximum number of characters of a tool's result in an event; what it found is listed whole."""


async def basic(context: Context) -> Outcome:
    """Ask the model, and emit events of its answer if somebody subscribed to the run.

    Raises:
        LorebindError: retrieval or the model failed.
    """
    run, task, workflow = context.run, context.task, context.frame.workflow
    parts = run.parts
    scope = BindingScope(parts.loaded, workflow=workflow.id, task=task.id)
    bindings = parts.bindings(scope)
    model, counter = await call(_model_at, parts.models, scope)
    scopes = context.scopes()
    for binding in (*bindings, *tool_bindings(scope)):
        await parts.service.open(binding.id, workflow.id).start(scopes["workflow"])
    request = Request(
        Prompt(
            task.prompt,
            scopes,
            is_foreign=context.is_foreign,
            renderers=[binding.renderer for binding in bindings if "{{" in binding.renderer],
        ),
        query=str(fill(task.query, scopes)) if task.query else None,
        history=_without_imitations(fill(task.history, scopes)) if task.history else (),
        **agent_request(scope, parts.service, counter, bindings),
    )
    if not run.bus.is_heard:
        reply = await answer(parts.service, bindings, model, counter, request)
    else:
        stream = AnswerStream(
            parts.service, bindings, model, counter, request, partial(_emit_call, context)
        )
        is_first = True
        async for text in stream:
            if is_first:
                _emit_results(context, stream.results)
            is_first = False
            context.emit("model_chunk", text=text)
        if is_first:
            _emit_results(context, stream.results)
        reply = stream.answer
        context.emit("model_end", text=reply.text, usage=reply.usage)
    return Outcome(
        reply.output,
        reply.verdict,
        reply.citations,
        reply.unknown_markers,
        reply.usage,
        blocks=_placed(reply),
    )


def _model_at(models: ModelPool, scope: BindingScope) -> tuple[BaseChatModel, TokenCounter]:
    """Return the model and the counter of an agent, which takes long if both must be made."""
    model, counter = models.at(scope.answers())
    if isinstance(counter, TiktokenCounter):
        counter.count("")  # reads the ranks of the encoding
    return model, counter


def _without_imitations(history: Any) -> Any:
    """Return messages whose texts do not read like blocks of passages."""
    if isinstance(history, str):
        return without_imitations([(history, True)])
    if isinstance(history, dict):
        return {name: _without_imitations(value) for name, value in history.items()}
    if isinstance(history, list):
        return [_without_imitations(value) for value in history]
    return history


def _emit_results(context: Context, results: Sequence[BoundResult]) -> None:
    for result in results:
        matches = [
            {"id": match.id, "score": match.score, "uri": match.metadata.get("uri")}
            for match in result.result.matches
        ]
        context.emit(
            "retrieval",
            kb_id=result.binding.id,
            verdict=result.verdict,
            matches=matches,
            seconds=result.result.seconds,
        )


def _emit_call(context: Context, call: ToolCall, reply: ToolMessage, seconds: float) -> None:
    from lorebind_bindings.langchain.markers import citations_in  # LangChain takes half a second

    context.emit(
        "tool_call",
        tool=call["name"],
        arguments=call["args"],
        status=reply.status,
        text=_shortened(str(reply.text)),
        found=[
            {"marker": passage.marker, "id": passage.id, "uri": passage.uri}
            for passage in citations_in([reply])
        ],
        seconds=seconds,
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_REPLY else f"{text[: _LONGEST_REPLY - 1]}…"


def _placed(reply: Answer) -> dict[str, str]:
    """Return the blocks that were injected as variables of the workflow, by variable name."""
    blocks: dict[str, list[str]] = {}
    for block in reply.blocks:
        variable = injected_variable(block.inject_as) if block.inject_as else ()
        if variable[:2] == ("workflow", "vars") and len(variable) == 3:
            blocks.setdefault(variable[2], []).append(block.text)
    return {name: "\n\n".join(texts) for name, texts in blocks.items()}
