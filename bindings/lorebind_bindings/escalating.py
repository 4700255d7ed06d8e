"""A model that was given too little may search by itself, where `tool_fallback` lets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_bindings.injecting import Injection
    from lorebind_bindings.resolver import ResolvedBinding

MOST_SEARCHES = 5
"""Rounds in which the model may search; then it has to answer."""


def searchable(bindings: Sequence[ResolvedBinding]) -> list[ResolvedBinding]:
    """The bindings whose knowledge a model may search by itself."""
    return [one for one in bindings if one.settings.tool_fallback != "never"]


def is_forced(injection: Injection) -> bool:
    """Whether the model has to search before it answers."""
    return any(
        one.verdict == "escalated" and one.binding.settings.tool_fallback == "escalate"
        for one in injection.results
    )
