"""Merge passages that were found more than once, in several documents or knowledge bases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorebind_prompts.cleaning import clean_text
from lorebind_prompts.rendering.base import source_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lorebind_prompts.contexts import RetrievedContext

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
        places = [source_line(one.metadata) for one in (self.context, *self.also)]
        return list(dict.fromkeys(places))[:_SOURCES_SHOWN]


def candidates_of(contexts: Iterable[RetrievedContext]) -> list[Candidate]:
    """Return the passages without duplicates, best score first, equal scores in the given order.

    Passages are duplicates if they have the same id, or the same text apart from whitespace.
    """
    candidates: list[Candidate] = []
    known: dict[str, Candidate] = {}
    for context in sorted(contexts, key=lambda one: one.score, reverse=True):
        content = clean_text(context.content)
        keys = [f"text {' '.join(content.split())}"]
        keys += [f"id {context.id}"] if context.id else []
        same = next((known[key] for key in keys if key in known), None)
        if same is None:
            same = Candidate(context, content)
            candidates.append(same)
        else:
            same.also.append(context)
        for key in keys:
            known.setdefault(key, same)
    return candidates
