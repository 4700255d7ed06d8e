"""The passages that a model is given for a question: a block for each binding, with its results.

Workflows, agents, prompts and tools all use this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_bindings.prompt_template import Block, label_of
from lorebind_bindings.retrieving import STANDARD, verdict_of
from lorebind_config.errors import UsageError
from lorebind_prompts import Portion, RetrievedContext, assemble_together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.documents import Document
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_bindings.retrieving import BoundResult, Verdict
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import AssembleResult, Citation, Dropped, TokenCounter


@dataclass(frozen=True, slots=True)
class Injection:
    """The blocks for a prompt, with the search results that they were made from."""

    blocks: list[Block]
    """The blocks with text: passages, or the text that stands in for them."""
    results: list[BoundResult]
    """The search result of each binding, whether its passages are offered or not."""
    assembled: list[AssembleResult]
    """The passages that were offered and those that were dropped, for each result `is_given`."""

    @property
    def offered(self) -> list[Citation]:
        """The passages in the blocks, in their order."""
        return [citation for result in self.assembled for citation in result.citations]

    @property
    def dropped(self) -> list[Dropped]:
        """Passages that were found but are not in the blocks, with the reasons."""
        return [drop for result in self.assembled for drop in result.dropped]

    @property
    def truncated(self) -> int:
        """Number of passages that did not fit the budget."""
        return sum(result.truncated_count for result in self.assembled)

    @property
    def must_search(self) -> bool:
        """Whether the model has to search before it answers."""
        return any(
            result.verdict == "escalated" and result.binding.settings.tool_fallback == "escalate"
            for result in self.results
        )

    @property
    def verdict(self) -> Verdict:
        if not self.results:
            return "hit" if self.offered else "none"
        ids = [result.binding.id for result in self.results if result.is_given]
        blocks = zip(ids, self.assembled, strict=True)
        return verdict_of(self.results, {name for name, block in blocks if block.citations})


async def inject(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    counter: TokenCounter,
    question: str,
    *,
    max_tokens: int | None = None,
    first_marker: int = 1,
    history: Sequence[BaseMessage] = (),
    config: RunnableConfig | None = None,
) -> Injection:
    """Search the bound knowledge bases and write the results as blocks.

    Args:
        service: the project's knowledge.
        bindings: the knowledge bases to search, with their settings and budgets.
        counter: counts the tokens of the model.
        question: the text to search for.
        max_tokens: the budget of all blocks together. None means the budgets of the bindings;
            bindings without a budget share 4096 tokens.
        first_marker: the number of the first passage.
        history: the messages before the question, see `retrieve`.
        config: its callbacks are notified; None means the config of the surrounding run, if any.

    Raises:
        UsageError: the question is blank.
        LorebindError: a search failed and the `on_error` of its binding is `fail`.
    """
    # Imported here because LangChain takes half a second to import.
    from lorebind_bindings.langchain.retriever import traced_retrieve

    results = await traced_retrieve(service, bindings, question, config, history)
    offered = [result for result in results if result.is_given]
    portions = [_portion(result, counter) for result in offered]
    assembled = assemble_together(
        portions, counter=counter, max_tokens=max_tokens, first_marker=first_marker
    )
    # If not even the best passage fits the budget, the result is treated like a miss.
    blocks_of = zip(offered, assembled, strict=True)
    contexts = {id(result): block.context for result, block in blocks_of}
    texts = [contexts.get(id(result)) or result.stands_in for result in results]
    # Lorebind's standard texts are added at most once each, and not next to passages.
    written = set(STANDARD) if any(contexts.values()) else set()
    blocks = []
    for result, text in zip(results, texts, strict=True):
        if text and text not in written:
            blocks.append(Block(text, result.binding.settings.inject_as))
            written |= {text} & STANDARD
    return Injection(blocks, results, assembled)


def inject_given(
    contexts: Iterable[RetrievedContext | Document],
    counter: TokenCounter,
    *,
    max_tokens: int | None = None,
    first_marker: int = 1,
) -> Injection:
    """Write passages that were found elsewhere as one block; see `inject` for the arguments.

    Raises:
        UsageError: an item is neither a `RetrievedContext` nor a LangChain document.
    """
    assembled = assemble_together(
        [Portion([_as_context(context, counter) for context in contexts])],
        counter=counter,
        max_tokens=max_tokens,
        first_marker=first_marker,
    )
    blocks = [Block(result.context) for result in assembled if result.context]
    return Injection(blocks, [], assembled)


def _as_context(passage: RetrievedContext | Document, counter: TokenCounter) -> RetrievedContext:
    from langchain_core.documents import Document  # importing LangChain takes half a second

    if isinstance(passage, RetrievedContext):
        return passage
    if isinstance(passage, Document):
        return RetrievedContext.from_document(passage, counter)
    raise UsageError(
        "retrieved passages must be a list of LangChain documents or RetrievedContexts, "
        f"not of {type(passage).__name__}"
    )


def _portion(bound: BoundResult, counter: TokenCounter) -> Portion:
    settings = bound.binding.settings
    return Portion(
        [
            RetrievedContext.from_match(bound.binding.id, match, counter)
            for match in bound.result.matches
        ],
        max_tokens=settings.max_tokens,
        renderer=bound.binding.renderer,
        label=label_of(settings.inject_as),
        weak=bound.is_weak,
    )


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message of a prompt."""

    role: str
    """`system`, `human`, `ai` or `tool`."""
    content: str


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """The messages that a model would get, and the passages that are omitted."""

    messages: Sequence[PromptMessage]
    tokens: int
    """The tokens of all messages."""
    tokenizer: str
    exact: bool
    """Whether the tokenizer is that of the model."""
    dropped: Sequence[Dropped]
    """The passages that were found and are not in the prompt, with the reasons."""
    verdict: Verdict
    results: Sequence[BoundResult]


def preview(
    messages: Sequence[BaseMessage], injection: Injection, counter: TokenCounter
) -> PromptPreview:
    """Return the prompt that these messages are, with what was injected into them."""
    from lorebind_prompts import count_messages

    return PromptPreview(
        [PromptMessage(message.type, str(message.text)) for message in messages],
        count_messages(messages, counter),
        counter.name,
        counter.exact,
        injection.dropped,
        injection.verdict,
        injection.results,
    )
