"""Search by the model itself, which `tool_fallback` allows when too little was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_bindings.injecting import Injection
    from lorebind_bindings.resolver import ResolvedBinding

MOST_SEARCHES = 5
"""Maximum number of rounds in which the model may search before it has to answer."""


def searchable(bindings: Sequence[ResolvedBinding]) -> list[ResolvedBinding]:
    """Return the bindings whose knowledge base the model may search by itself."""
    return [binding for binding in bindings if binding.settings.tool_fallback != "never"]


def is_forced(injection: Injection) -> bool:
    """Return whether the model has to search before it answers."""
    return any(
        result.verdict == "escalated" and result.binding.settings.tool_fallback == "escalate"
        for result in injection.results
    )
