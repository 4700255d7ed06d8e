"""Share one budget among several blocks: each gets a fair part, and unused parts go to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError
from lorebind_prompts.assembler import DEFAULT_MAX_TOKENS, Assembler, candidates_of
from lorebind_prompts.tokens import EstimateCounter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_prompts.assembler import AssembleResult, Candidate
    from lorebind_prompts.contexts import RetrievedContext
    from lorebind_prompts.rendering.base import Renderer
    from lorebind_prompts.tokens import TokenCounter

BETWEEN_BLOCKS = "\n\n"


@dataclass(frozen=True, slots=True)
class Portion:
    """The passages for one of several blocks."""

    contexts: Sequence[RetrievedContext]
    max_tokens: int | None = None
    """Maximum number of tokens of the block; None means its part of the shared budget."""
    renderer: str | Renderer = "bullets"
    """A renderer, its name, or a template for each passage."""
    label: str | None = None
    """The name of the block."""
    weak: bool = False
    """Whether the block says that its passages match the question only weakly."""

    def assembler(self, counter: TokenCounter, max_tokens: int = DEFAULT_MAX_TOKENS) -> Assembler:
        """Return an assembler with the settings of this portion."""
        return Assembler(max_tokens, counter, self.renderer, self.label, weak=self.weak)


def assemble_together(
    portions: Sequence[Portion],
    *,
    counter: TokenCounter | None = None,
    max_tokens: int | None = None,
    first_marker: int = 1,
) -> list[AssembleResult]:
    """Return a block for each portion, in their order; markers are numbered across all blocks.

    A passage in several portions is shown in the block of the portion that scored it best, with its
    other sources. Blocks that share a budget do not exceed it together, including the blank lines
    between them. Each block gets at least an equal part unless it needs less; the rest goes to the
    blocks that need more.

    Args:
        portions: the passages to show.
        counter: counts the tokens; by default, four characters count as one token.
        max_tokens: the budget of all blocks together. None means that each block has the budget
            of its portion, and the portions without a budget share 4096 tokens.
        first_marker: the number of the first passage.

    Raises:
        UsageError: the budget is negative, or a renderer is unknown.
    """
    if max_tokens is not None and max_tokens < 0:
        raise UsageError(f"max_tokens must not be negative, got {max_tokens}")
    counter = counter or EstimateCounter()
    shares = _each_its_own(portions)

    total = DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens
    sharing = [
        at
        for at, portion in enumerate(portions)
        if max_tokens is not None or portion.max_tokens is None
    ]
    limits = [total if portion.max_tokens is None else portion.max_tokens for portion in portions]
    needs = {at: portions[at].assembler(counter).tokens_of(shares[at]) for at in sharing}
    blocks = sum(need > 0 for need in needs.values())
    total = max(0, total - max(0, blocks - 1) * counter.count(BETWEEN_BLOCKS))
    budgets = dict(enumerate(limits))
    capped = [min(need, limits[at]) for at, need in needs.items()]
    budgets |= zip(sharing, _fair(capped, total), strict=True)

    def pack(at: int, budget: int, marker: int) -> AssembleResult:
        return portions[at].assembler(counter, budget).pack(shares[at], first_marker=marker)

    results: list[AssembleResult] = []
    for at in range(len(portions)):
        results.append(pack(at, budgets[at], _after(first_marker, results)))
    # Passages rarely fill a budget exactly; the rest may fit one more passage of another block.
    left = total - sum(results[at].total_tokens for at in sharing)
    final: list[AssembleResult] = []
    for at, fair in enumerate(results):
        marker = _after(first_marker, final)
        moved = marker != _after(first_marker, results[:at])
        more = min(limits[at], fair.total_tokens + left) if at in needs else limits[at]
        chosen = fair
        if fair.truncated_count and more > budgets[at]:
            wider = pack(at, more, marker)
            chosen = wider if wider.truncated_count < fair.truncated_count else fair
        if chosen is fair and moved:  # other numbers may need more tokens
            chosen = pack(at, min(more, budgets[at]), marker)
        final.append(chosen)
        left -= chosen.total_tokens - fair.total_tokens if at in needs else 0
    return final


def _after(first_marker: int, results: Sequence[AssembleResult]) -> int:
    return first_marker + sum(len(result.citations) for result in results)


def _each_its_own(portions: Sequence[Portion]) -> list[list[Candidate]]:
    """Return the passages of each portion, so that no passage is in two of them."""
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
    """Divide a total so that each share is at most its need, and smaller than others only then.

    This is max-min fairness: all shares grow equally until their needs are met.
    """
    budgets = [0] * len(needs)
    by_need = sorted(range(len(needs)), key=needs.__getitem__)
    for before, at in enumerate(by_need):
        budgets[at] = min(needs[at], total // (len(needs) - before))
        total -= budgets[at]
    return budgets
