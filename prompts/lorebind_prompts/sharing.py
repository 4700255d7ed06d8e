"""One budget for several blocks: each gets a fair part, and what one leaves the others may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import UsageError
from lorebind_prompts.assembler import DEFAULT_MAX_TOKENS, Assembler
from lorebind_prompts.duplicates import candidates_of
from lorebind_prompts.tokens import EstimateCounter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_prompts.assembler import AssembleResult
    from lorebind_prompts.contexts import RetrievedContext
    from lorebind_prompts.duplicates import Candidate
    from lorebind_prompts.rendering.base import Renderer
    from lorebind_prompts.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Portion:
    """What is to become one block, beside others."""

    contexts: Sequence[RetrievedContext]
    max_tokens: int | None = None
    """The most that the block may take; None means its part of the common budget."""
    renderer: str | Renderer = "bullets"
    label: str | None = None


def assemble_together(
    portions: Sequence[Portion],
    *,
    counter: TokenCounter | None = None,
    max_tokens: int | None = None,
    first_marker: int = 1,
) -> list[AssembleResult]:
    """A block for each portion, in their order; markers are numbered through all of them.

    A passage that is in several portions is shown in the block of the one that scored it best, with
    the other sources beside it. The blocks that share a budget together take no more than that. No
    one gets less than an equal part unless it needs less, and what it does not need goes to those
    that need more.

    Args:
        portions: what is to be shown.
        counter: what counts; without one, four characters are a token.
        max_tokens: the budget of all blocks together. None means that each block has the budget
            that its portion names, and those that name none share 4096.
        first_marker: the number of the first passage.

    Raises:
        UsageError: for a negative budget, or a renderer that is not there.
    """
    if max_tokens is not None and max_tokens < 0:
        raise UsageError(f"max_tokens must not be negative, and is {max_tokens}")
    counter = counter or EstimateCounter()
    shares = _each_its_own(portions)

    def assemble(budgets: Sequence[int]) -> list[AssembleResult]:
        results: list[AssembleResult] = []
        marker = first_marker
        for portion, share, budget in zip(portions, shares, budgets, strict=True):
            maker = Assembler(budget, counter, portion.renderer, portion.label)
            results.append(maker.pack(share, first_marker=marker))
            marker += len(results[-1].citations)
        return results

    total = DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens
    sharing = [
        at for at, one in enumerate(portions) if max_tokens is not None or one.max_tokens is None
    ]
    limits = [total if one.max_tokens is None else one.max_tokens for one in portions]
    budgets = list(limits)
    needs = [_tokens_of(portions[at], shares[at], counter) for at in sharing]
    asked = [min(need, limits[at]) for at, need in zip(sharing, needs, strict=True)]
    for at, budget in zip(sharing, _fair(asked, total), strict=True):
        budgets[at] = budget
    results = assemble(budgets)
    # Passages do not fill a budget to the last token; what so is left may hold one more elsewhere.
    for at in sharing:
        used = [result.total_tokens for result in results]
        left = total - sum(used[other] for other in sharing)
        more = min(limits[at], used[at] + left)
        if results[at].truncated_count and more > budgets[at]:
            again = assemble([*used[:at], more, *used[at + 1 :]])
            fits = sum(again[other].total_tokens for other in sharing) <= total
            if fits and _truncated(again) < _truncated(results):
                results = again
    return results


def _tokens_of(portion: Portion, share: Sequence[Candidate], counter: TokenCounter) -> int:
    """What a block would take with everything in it."""
    assembler = Assembler(counter=counter, renderer=portion.renderer, label=portion.label)
    return assembler.tokens_of(share)


def _truncated(results: Sequence[AssembleResult]) -> int:
    return sum(result.truncated_count for result in results)


def _each_its_own(portions: Sequence[Portion]) -> list[list[Candidate]]:
    """The passages of each portion, none of them in two."""
    owner: dict[int, int] = {}
    everything: list[RetrievedContext] = []
    for at, portion in enumerate(portions):
        for context in portion.contexts:
            owner.setdefault(id(context), at)
            everything.append(context)
    shares: list[list[Candidate]] = [[] for _ in portions]
    for candidate in candidates_of(everything):
        shares[owner[id(candidate.context)]].append(candidate)
    return shares


def _fair(needs: Sequence[int], total: int) -> list[int]:
    """Shares of a total: no one gets more than it needs, or less than another unless it needs less.

    This is max-min fairness: the total rises in all shares alike, as water does.
    """
    budgets = [0] * len(needs)
    by_need = sorted(range(len(needs)), key=needs.__getitem__)
    for before, at in enumerate(by_need):
        budgets[at] = min(needs[at], total // (len(needs) - before))
        total -= budgets[at]
    return budgets
