"""One question, answered: retrieve, assemble, ask the model, check the citations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_bindings.placing import label_of, literal
from lorebind_bindings.retrieving import retrieve
from lorebind_knowledge.errors import LorebindError, ModelError
from lorebind_knowledge.redaction import said_by
from lorebind_prompts import Assembler, RetrievedContext, check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel

    from lorebind_bindings.placing import Prompt
    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_bindings.retrieving import BoundResult
    from lorebind_knowledge.configuration import Reference
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import AssembleResult, Citation, TokenCounter

DEFAULT_MAX_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, and on what grounds."""

    text: str
    verdict: str
    """`hit`; `fallback` when no passage could be offered; `none` when there was nothing bound."""
    citations: list[Citation]
    """The passages that the answer cites, in the order of their first mention."""
    unknown_markers: list[str]
    """Markers in the answer that belong to no passage."""
    offered: list[Citation]
    """All passages that the model was given."""
    dropped: int
    """Passages that were found but did not fit the token budget."""
    results: list[BoundResult]
    """What each binding found, whether it was offered or not."""
    usage: dict[str, Any] = field(default_factory=dict)
    """`prompt_tokens`, `tokenizer`, `exact`, and what the model itself reported."""


async def answer(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    model: BaseChatModel,
    counter: TokenCounter,
    *,
    prompt: str | Prompt,
    query: str | None = None,
    instructions: str = "",
) -> Answer:
    """Ask a chat model, with the knowledge that is bound in front of the prompt.

    Args:
        service: the project's knowledge.
        bindings: what to search, and within which budgets.
        model: any LangChain chat model.
        counter: counts the tokens of that model.
        prompt: what the model is asked: a text as it stands, or a template with places for
            passages. Those that have no place there stand before it.
        query: what the knowledge is searched for; None means the prompt, without passages.
        instructions: the system message.

    Raises:
        ModelError: the model failed.
        LorebindError: retrieval failed, see `retrieve`.
    """
    from lorebind_prompts import build_messages, count_messages  # half a second of LangChain

    asked = literal(prompt) if isinstance(prompt, str) else prompt
    placed: dict[Reference, list[str]] = {
        asked.places(binding.settings.inject_as): [] for binding in bindings
    }
    before = placed.setdefault((), [])
    del placed[()]
    results = await retrieve(service, bindings, query or asked.filled(placed))
    blocks, assembled = _assemble(results, counter)
    for binding, block in blocks:
        placed.get(asked.places(binding.settings.inject_as), before).append(block)
    messages = build_messages(
        question=asked.filled(placed), instructions=instructions, blocks=before
    )
    try:
        response = await model.ainvoke(messages)
    except LorebindError:
        raise
    except Exception as error:  # any provider's own exceptions: named, and kept as the cause
        raise ModelError(f"the chat model failed: {said_by(error, holder=model)}") from error
    offered = [citation for result in assembled for citation in result.citations]
    checked = check(str(response.text), offered)
    usage = {
        "prompt_tokens": count_messages(messages, counter),
        "tokenizer": counter.name,
        "exact": counter.exact,
    }
    if response.usage_metadata:
        usage["model"] = dict(response.usage_metadata)
    return Answer(
        text=checked.text,
        verdict="none" if not results else "hit" if offered else "fallback",
        citations=checked.citations,
        unknown_markers=checked.unknown,
        offered=offered,
        dropped=sum(result.truncated_count for result in assembled),
        results=results,
        usage=usage,
    )


def _assemble(
    results: Sequence[BoundResult], counter: TokenCounter
) -> tuple[list[tuple[ResolvedBinding, str]], list[AssembleResult]]:
    """A block of text for each binding that has one; markers are numbered through all blocks."""
    blocks: list[tuple[ResolvedBinding, str]] = []
    assembled: list[AssembleResult] = []
    marker = 1
    for found in results:
        settings = found.binding.settings
        if not found.hit:
            blocks += [(found.binding, settings.fallback)] if settings.fallback else []
            continue
        assembler = Assembler(
            max_tokens=settings.max_tokens or DEFAULT_MAX_TOKENS,
            counter=counter,
            label=label_of(settings.inject_as),
        )
        contexts = [
            RetrievedContext.from_match(found.binding.id, match, counter)
            for match in found.result.matches
        ]
        result = assembler.assemble(contexts, first_marker=marker)
        marker += len(result.citations)
        assembled.append(result)
        # A budget that holds not even the best passage leaves as little as a miss.
        text = result.context or settings.fallback
        blocks += [(found.binding, text)] if text else []
    return blocks, assembled
