"""What is put before a model for a question: a block of passages for each binding, and its account.

Every face does this in the same way: workflows, agents, prompts and tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_bindings.prompt_template import Block, label_of
from lorebind_bindings.retrieving import STANDARD, verdict_of
from lorebind_knowledge.errors import UsageError
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
    """What is put before a model, and on what grounds."""

    blocks: list[Block]
    """Those that have a text: passages, or a fallback."""
    results: list[BoundResult]
    """What each binding found, whether it is offered or not."""
    assembled: list[AssembleResult]
    """What became of the passages."""

    @property
    def offered(self) -> list[Citation]:
        """The passages in the blocks, in their order."""
        return [citation for result in self.assembled for citation in result.citations]

    @property
    def dropped(self) -> list[Dropped]:
        """What was found and is not in the blocks, and why."""
        return [drop for result in self.assembled for drop in result.dropped]

    @property
    def truncated(self) -> int:
        """How many passages did not fit the budget."""
        return sum(result.truncated_count for result in self.assembled)

    @property
    def verdict(self) -> Verdict:
        if not self.results:
            return "hit" if self.offered else "none"
        return verdict_of(self.results, offered=bool(self.offered))


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
    """Search what is bound, and write what is found as blocks.

    Args:
        service: the project's knowledge.
        bindings: what to search, and within which budgets.
        counter: counts the tokens of the model.
        question: what is searched for.
        max_tokens: the budget of all blocks together; None means what each binding is given, and
            4096 for those together that are given nothing.
        first_marker: the number of the first passage.
        history: what was said before the question, see `retrieve`.
        config: whose callbacks are told; None means that of the run around this one, if any.

    Raises:
        UsageError: a blank question.
        LorebindError: a search failed whose binding does not say `on_error` otherwise.
    """
    from lorebind_bindings.langchain.tracing import traced_retrieve  # half a second of LangChain

    results = await traced_retrieve(service, bindings, question, config, history)
    given = [found for found in results if found.is_given]
    portions = [_portion(found, counter) for found in given]
    assembled = assemble_together(
        portions, counter=counter, max_tokens=max_tokens, first_marker=first_marker
    )
    # A budget that holds not even the best passage leaves as little as a miss.
    shown = {id(found): result.context for found, result in zip(given, assembled, strict=True)}
    texts = [shown.get(id(found)) or found.stands_in for found in results]
    # What Lorebind says of its own accord is said once, and not beside passages.
    said = set(STANDARD) if any(shown.values()) else set()
    blocks = []
    for found, text in zip(results, texts, strict=True):
        if text and text not in said:
            blocks.append(Block(text, found.binding.settings.inject_as))
            said |= {text} & STANDARD
    return Injection(blocks, results, assembled)


def inject_given(
    contexts: Iterable[RetrievedContext | Document],
    counter: TokenCounter,
    *,
    max_tokens: int | None = None,
    first_marker: int = 1,
) -> Injection:
    """The same for passages that were found before, in one block.

    Raises:
        UsageError: something else is among them.
    """
    assembled = assemble_together(
        [Portion([_given(one, counter) for one in contexts])],
        counter=counter,
        max_tokens=max_tokens,
        first_marker=first_marker,
    )
    blocks = [Block(result.context) for result in assembled if result.context]
    return Injection(blocks, [], assembled)


def _given(one: RetrievedContext | Document, counter: TokenCounter) -> RetrievedContext:
    from langchain_core.documents import Document  # half a second of LangChain

    if isinstance(one, RetrievedContext):
        return one
    if isinstance(one, Document):
        return RetrievedContext.from_document(one, counter)
    raise UsageError(
        "passages that were found before must be a list of LangChain's documents or of "
        f"RetrievedContexts, not of {type(one).__name__}"
    )


def _portion(found: BoundResult, counter: TokenCounter) -> Portion:
    settings = found.binding.settings
    return Portion(
        [
            RetrievedContext.from_match(found.binding.id, match, counter)
            for match in found.result.matches
        ],
        max_tokens=settings.max_tokens,
        renderer=found.binding.renderer,
        label=label_of(settings.inject_as),
        weak=found.is_weak,
    )
