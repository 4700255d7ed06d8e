"""The context assembler: fits the best passages into a token budget, with citations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError
from lorebind_knowledge.text.markdown import BLANK_LINE
from lorebind_knowledge.text.splitting import sentence_breaks
from lorebind_prompts.citations import Citation
from lorebind_prompts.cleaning import clean_text
from lorebind_prompts.rendering.base import Passage, source_line
from lorebind_prompts.rendering.blocks import renderer_for
from lorebind_prompts.tokens import EstimateCounter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lorebind_prompts.contexts import RetrievedContext
    from lorebind_prompts.rendering.base import Renderer
    from lorebind_prompts.tokens import TokenCounter

_SOURCES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that is shown at most once, however often it was found."""

    context: RetrievedContext
    """The occurrence with the best score, the first of equals."""
    content: str
    """The cleaned text; empty when there is nothing to show."""
    also: list[RetrievedContext] = field(default_factory=list)
    """The other occurrences."""

    @property
    def sources(self) -> list[str]:
        """The sources that its entry names: at most three, the best first."""
        places = [source_line(context.metadata) for context in (self.context, *self.also)]
        return list(dict.fromkeys(places))[:_SOURCES_SHOWN]


def candidates_of(contexts: Iterable[RetrievedContext]) -> list[Candidate]:
    """Return the passages without duplicates, best first, equally good ones in the given order.

    Passages are duplicates if they have the same id, or the same text apart from whitespace.
    """
    candidates: list[Candidate] = []
    by_key: dict[str, Candidate] = {}
    for context in sorted(contexts, key=attrgetter("ordering"), reverse=True):
        content = clean_text(context.content)
        keys = [f"text {' '.join(content.split())}"]
        keys += [f"id {context.id}"] if context.id else []
        same = next((by_key[key] for key in keys if key in by_key), None)
        if same is None:
            same = Candidate(context, content)
            candidates.append(same)
        else:
            same.also.append(context)
        for key in keys:
            by_key.setdefault(key, same)
    return candidates


DEFAULT_MAX_TOKENS = 4096

# Joined texts do not have the sum of their tokens: tokens merge between entries, and the block's
# id changes with its content. This close to the budget, the whole block is counted.
_SLACK = 32
_SLACK_PER_ENTRY = 2

# A shorter rest of a passage is useless. Tokens of more than this many characters are rare.
_SHORTEST_CUT = 24
_CHARACTERS_PER_TOKEN = 12

_WORD_END = re.compile(r"(?<=\S)(?=\s)")


@dataclass(frozen=True, slots=True)
class Dropped:
    """A passage that is not in the block, and the reason."""

    id: str
    uri: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class AssembleResult:
    """A block for a prompt, with its citations and the passages that were dropped."""

    context: str
    """The rendered block; empty when there is nothing to show."""
    citations: list[Citation] = field(default_factory=list)
    """One citation per passage shown, in the order of the block."""
    total_tokens: int = 0
    """Number of tokens in `context`, counted by `counter`; never more than the budget."""
    truncated_count: int = 0
    """Number of passages dropped because of the budget, without duplicates."""
    dropped: list[Dropped] = field(default_factory=list)
    counter: str = ""
    """Name of the token counter."""
    exact: bool = False
    """Whether the model counts the same number, rather than an estimate."""
    cut: bool = False
    """Whether the only passage shown was shortened, because none fitted as a whole."""


@dataclass(frozen=True, slots=True)
class _Entry:
    candidate: Candidate
    passage: Passage
    text: str
    """The passage as the renderer writes it."""


class Assembler:
    """Fits passages into a token budget.

    Args:
        max_tokens: The budget for the block with all its markup.
        counter: Counts the tokens; by default, four characters count as one token.
        renderer: A renderer, its name, or a template for each passage.
        label: The name of the block, see `inject_as`.
        weak: Whether the block says that its passages match the question only weakly.

    Raises:
        UsageError: the budget is negative, or the renderer is unknown.
    """

    def __init__(
        self,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        counter: TokenCounter | None = None,
        renderer: str | Renderer = "bullets",
        label: str | None = None,
        *,
        weak: bool = False,
    ) -> None:
        if max_tokens < 0:
            raise UsageError(f"max_tokens must not be negative, got {max_tokens}")
        self.max_tokens = max_tokens
        self.counter: TokenCounter = counter or EstimateCounter()
        self.renderer = renderer_for(renderer) if isinstance(renderer, str) else renderer
        self.label, self.weak = label, weak

    def assemble(
        self, contexts: Iterable[RetrievedContext], *, first_marker: int = 1
    ) -> AssembleResult:
        """Return the block for these passages, best score first, equal scores in the given order.

        A passage that does not fit is dropped, but a smaller one after it may still fit. If none
        fits, the best is cut at the end of a sentence or a word. Markers are numbered from
        `first_marker` in the order of the block. Duplicates are shown once, with all their sources.
        """
        return self.pack(candidates_of(contexts), first_marker=first_marker)

    def pack(self, candidates: Sequence[Candidate], *, first_marker: int = 1) -> AssembleResult:
        """Return the block for passages without duplicates, given best first; see `assemble`."""
        entries = self._pack(candidates, first_marker)
        cut = not entries
        if cut:
            entries = self._cut_best(candidates, first_marker)
        dropped = list(self._dropped(candidates, entries))
        text = self._text(entries)
        return AssembleResult(
            context=text,
            citations=list(map(_citation, entries)),
            total_tokens=self.counter.count(text),
            truncated_count=sum(drop.reason == self._too_long for drop in dropped),
            dropped=dropped,
            counter=self.counter.name,
            exact=self.counter.exact,
            cut=cut and bool(entries),
        )

    def tokens_of(self, candidates: Sequence[Candidate]) -> int:
        """Return the number of tokens of a block with all candidates, ignoring the budget."""
        numbered = enumerate(candidates, 1)
        entries = [self._entry(item, number) for number, item in numbered if item.content]
        return self.counter.count(self._text(entries))

    def _pack(self, candidates: Sequence[Candidate], first_marker: int) -> list[_Entry]:
        entries: list[_Entry] = []
        used, slack = self.counter.count(self._block([])), _SLACK
        for candidate in candidates:
            if not candidate.content:
                continue
            entry = self._entry(candidate, first_marker + len(entries))
            after = used + self.counter.count(f"\n{entry.text}")
            if after > self.max_tokens + slack:
                continue
            if after > self.max_tokens - slack:
                after = self.counter.count(self._block([*entries, entry]))
                if after > self.max_tokens:
                    continue
                slack = _SLACK
            entries.append(entry)
            used, slack = after, slack + _SLACK_PER_ENTRY
        # The sums above are approximate, and a custom counter may behave in any way.
        while entries and not self._fits(entries):
            entries.pop()
        return entries

    def _cut_best(self, candidates: Sequence[Candidate], marker: int) -> list[_Entry]:
        best = next((candidate for candidate in candidates if candidate.content), None)
        if best is None:
            return []

        def shortened(end: int) -> _Entry:
            content = best.content[:end].rstrip()
            return self._entry(replace(best, content=f"{content} …"), marker)

        low, high = 0, min(len(best.content), self.max_tokens * _CHARACTERS_PER_TOKEN)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._fits([shortened(middle)])
            low, high = (middle, high) if fits else (low, middle - 1)
        for end in _cut_places(best.content, low):
            if self._fits([entry := shortened(end)]):
                return [replace(entry, candidate=best)]
        return []

    def _entry(self, candidate: Candidate, number: int) -> _Entry:
        context, source = candidate.context, "; also ".join(candidate.sources)
        passage = Passage(f"[{number}]", source, candidate.content, context.score, context.metadata)
        return _Entry(candidate, passage, self.renderer.entry(passage))

    def _fits(self, entries: Sequence[_Entry]) -> bool:
        return self.counter.count(self._text(entries)) <= self.max_tokens

    def _text(self, entries: Sequence[_Entry]) -> str:
        return self._block(entries) if entries else ""

    def _block(self, entries: Sequence[_Entry]) -> str:
        texts = [entry.text for entry in entries]
        return self.renderer.block(texts, self.label, weak=self.weak)

    def _dropped(
        self, candidates: Sequence[Candidate], entries: Sequence[_Entry]
    ) -> Iterable[Dropped]:
        markers = {id(entry.candidate): entry.passage.marker for entry in entries}
        for candidate in candidates:
            marker = markers.get(id(candidate))
            if marker is None:
                reason = self._too_long if candidate.content else "no text"
                yield _drop(candidate.context, reason)
            for context in candidate.also:
                yield _drop(context, f"duplicate of {marker}" if marker else reason)

    @property
    def _too_long(self) -> str:
        return f"does not fit into {self.max_tokens} tokens"


def assemble_simple(contexts: Iterable[RetrievedContext]) -> str:
    """Join the bare texts in the given order with `---`, without a budget or citations."""
    return "\n\n---\n\n".join(context.content for context in contexts)


def _drop(context: RetrievedContext, reason: str) -> Dropped:
    return Dropped(context.id, str(context.metadata.get("uri", "")), context.score, reason)


def _citation(entry: _Entry) -> Citation:
    first, *others = (
        Citation(
            marker=entry.passage.marker,
            id=context.id,
            uri=str(context.metadata.get("uri", "")),
            title=str(context.metadata.get("title", "")),
            score=context.score,
            metadata=context.metadata,
            content=entry.passage.content,
        )
        for context in (entry.candidate.context, *entry.candidate.also)
    )
    return replace(first, also=others)


def _cut_places(text: str, longest: int) -> Iterable[int]:
    """Return positions to cut a text at, best first, so that at most `longest` characters stay.

    The last sentence ends come first, then the last word ends; both only if at least a third of
    `longest` stays. A text without words (an endless line, some scripts) is cut anywhere.
    """
    breaks = takewhile(lambda place: place[0] <= longest, sentence_breaks(text, 0, len(text)))
    paragraphs = (blank.start() for blank in BLANK_LINE.finditer(text, 0, longest + 1))
    sentences = sorted({*paragraphs, *(end for end, _ in breaks)})
    words = [space.start() for space in _WORD_END.finditer(text, 0, longest + 1)]
    last = [at for ends in (sentences, words) for at in ends[:-4:-1] if 3 * at >= longest]
    places = [*last, longest, longest - _SLACK]
    return [at for at in places if at >= _SHORTEST_CUT]
