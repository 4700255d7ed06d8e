"""A model that was given too little may search by itself, where `tool_fallback` lets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage

    from lorebind_bindings.injecting import Injection
    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import Citation, TokenCounter

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


class Escalation:
    """The searches of a model for one answer. A model that takes no tools is asked without."""

    def __init__(
        self,
        service: KnowledgeService,
        bindings: Sequence[ResolvedBinding],
        counter: TokenCounter,
        injection: Injection,
        max_tokens: int | None,
    ) -> None:
        """
        Args:
            service: the project's knowledge.
            bindings: what the question was searched in.
            counter: counts the tokens of the model.
            injection: what was found; its verdict is `escalated`.
            max_tokens: the budget of all passages of a search together, see `inject`.
        """
        self.offered: list[Citation] = list(injection.offered)
        """The passages that the model was given, those of its own searches among them."""
        self._service, self._bindings = service, searchable(bindings)
        self._counter, self._max_tokens = counter, max_tokens
        self._forced = is_forced(injection)
        self.searching: list[AIMessage] = []
        """What the model has said so far to search, a message for each round."""

    def client(self, model: BaseChatModel) -> Any:
        """The model as it is to be asked now."""
        from lorebind_bindings.langchain.tool import knowledge_tool

        if self._is_over:
            return model
        tool = knowledge_tool(self._service, self._bindings, self._counter)
        choice = {"tool_choice": "any"} if self._forced and not self.searching else {}
        try:
            return model.bind_tools([tool], **choice)
        except NotImplementedError:  # raised by LangChain's base class: the model takes no tools
            return model

    async def found_for(self, response: AIMessage) -> list[ToolMessage]:
        """What the searches give that a response asks for; nothing where it is the answer."""
        from langchain_core.messages import ToolMessage

        from lorebind_bindings.langchain.tool import search_as_tool

        if self._is_over or not response.tool_calls:
            return []
        self.searching.append(response)
        found = []
        for call in response.tool_calls:
            text, injection = await search_as_tool(
                self._service,
                self._bindings,
                self._counter,
                str(call["args"].get("query", "")),
                max_tokens=self._max_tokens,
                first_marker=len(self.offered) + 1,
            )
            self.offered += injection.offered if injection else []
            found.append(ToolMessage(text, tool_call_id=call["id"]))
        return found

    @property
    def _is_over(self) -> bool:
        return len(self.searching) == MOST_SEARCHES
