"""Numbers that mean one passage each in a whole conversation, whichever way it was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage

from lorebind_prompts import Citation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from lorebind_bindings.injecting import Injection

STATE_KEY = "lorebind_found"
"""Where the state of an agent holds what was found for its question, while it works on it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a question."""

    question: str
    injection: Injection


def citations_in(messages: Sequence[BaseMessage]) -> Iterator[Citation]:
    """The passages that tools have given in a conversation."""
    for message in messages:
        artifact = message.artifact if isinstance(message, ToolMessage) else None
        if isinstance(artifact, dict) and isinstance(artifact.get("citations"), list):
            yield from map(Citation.from_data, artifact["citations"])


def next_marker(messages: Sequence[BaseMessage]) -> int:
    """The first number that stands for no passage that a tool has given."""
    return 1 + max((citation.number for citation in citations_in(messages)), default=0)


def first_marker(runtime: Any, most: int) -> int:
    """Where a call of a tool numbers from.

    Args:
        runtime: LangGraph's `ToolRuntime`; None outside of an agent.
        most: the most passages that a call may give. Calls that are made at once do not see each
            other's, and so keep this distance.
    """
    state = getattr(runtime, "state", None)
    messages = state.get("messages") if isinstance(state, dict) else state
    if not isinstance(messages, list):
        return 1
    asked = next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)
    ids = [call["id"] for call in asked.tool_calls] if asked else []
    ahead = ids.index(runtime.tool_call_id) if runtime.tool_call_id in ids else 0
    found = state.get(STATE_KEY) if isinstance(state, dict) else None
    before = [one.number for one in found.injection.offered] if isinstance(found, Found) else []
    return max(next_marker(messages), 1 + max(before, default=0)) + ahead * most
