"""Passage numbers that are unique in a conversation, for passages of prompts and of tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypedDict

from langchain_core.messages import AIMessage, ToolMessage

from lorebind_bindings.retrieving import best_of
from lorebind_prompts import Citation, last_question

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool

    from lorebind_bindings.retrieving import Verdict

STATE_KEY: Final = "lorebind_numbers"
"""Key in the state of an agent: the numbers that each middleware has used, by its name."""
METADATA_KEY = "lorebind"
"""Key in an answer's `response_metadata`: `verdict`, `citations` and `unknown_markers`."""
MOST_KEY = "lorebind_most"
"""Key in a tool's `metadata`: the maximum number of passages that a call returns."""

_FIELDS = {"marker", "id", "uri", "title", "score", "metadata", "also"}


class Numbers(TypedDict):
    """The passage numbers of a middleware for a question. No text: checkpointers save this."""

    asked: str | None
    """The id of the user's message."""
    first: int
    last: int
    """Less than `first` if nothing was offered."""


def citations_in(messages: Sequence[BaseMessage]) -> Iterator[Citation]:
    """Yield the passages that tools returned in a conversation and those that its answers cite."""
    for message in messages:
        data: Any = None
        if isinstance(message, ToolMessage):
            data = message.artifact
        elif isinstance(message, AIMessage):
            data = message.response_metadata.get(METADATA_KEY)
        citations = data.get("citations") if isinstance(data, dict) else None
        if isinstance(citations, list):
            yield from (
                Citation.from_data(citation) for citation in citations if _is_ours(citation)
            )


def passages_in(messages: Sequence[BaseMessage]) -> list[Citation]:
    """Return the passages of a conversation, each once; see `citations_in`."""
    passages: dict[str, Citation] = {}
    for citation in citations_in(messages):  # an answer repeats the citations of its tools
        passages.setdefault(citation.marker, citation)
    return list(passages.values())


def searched_verdict(messages: Sequence[BaseMessage]) -> Verdict:
    """Return the best verdict of the searches that tools made since the user's last message.

    It is `none` if there were none.
    """
    turn = messages[last_question(messages) or 0 :]
    artifacts = (message.artifact for message in turn if isinstance(message, ToolMessage))
    return best_of(
        str(artifact.get("verdict")) for artifact in artifacts if isinstance(artifact, dict)
    )


def next_marker(messages: Sequence[BaseMessage], numbers: Mapping[str, Numbers] = {}) -> int:
    """Return the first number that is not used by a passage yet.

    Args:
        messages: the conversation.
        numbers: the value under `STATE_KEY` in the state of an agent.
    """
    numbered = [citation.number for citation in citations_in(messages)]
    numbered += [number["last"] for number in numbers.values()]
    return 1 + max(numbered, default=0)


def first_marker(runtime: Any) -> int:
    """Return the first passage number for a tool call.

    Parallel calls do not see each other's passages. Each call therefore reserves the maximum number
    of passages that the calls before it may return.

    Args:
        runtime: LangGraph's `ToolRuntime`; None outside of an agent.
    """
    state = getattr(runtime, "state", None)
    numbers = state.get(STATE_KEY, {}) if isinstance(state, dict) else {}
    messages = state.get("messages") if isinstance(state, dict) else state
    if not isinstance(messages, list):
        return 1
    calling = next(
        (message for message in reversed(messages) if isinstance(message, AIMessage)), None
    )
    together = calling.tool_calls if calling else []
    ids = [call["id"] for call in together]
    at = ids.index(runtime.tool_call_id) if runtime.tool_call_id in ids else 0
    most = {tool.name: _most(tool) for tool in getattr(runtime, "tools", ())}
    ahead = sum(most.get(call["name"], 0) for call in together[:at])
    return next_marker(messages, numbers) + ahead


def _most(tool: BaseTool) -> int:
    most = (tool.metadata or {}).get(MOST_KEY, 0)
    return most if isinstance(most, int) else 0


def _is_ours(data: Any) -> bool:
    """Check whether this is a citation of Lorebind: other tools may use `citations` too."""
    if not (isinstance(data, dict) and data.keys() >= _FIELDS and isinstance(data["also"], list)):
        return False
    numbered = re.fullmatch(r"\[[0-9]{1,9}\]", str(data["marker"]))
    return numbered is not None and all(map(_is_ours, data["also"]))
