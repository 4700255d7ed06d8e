"""A tool with which an agent searches knowledge bases, using queries of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.tools import InjectedToolArg, StructuredTool
from pydantic import BaseModel, Field

from lorebind_bindings.injecting import inject
from lorebind_bindings.langchain.markers import MOST_KEY, first_marker
from lorebind_bindings.resolver import narrowed
from lorebind_bindings.tool_filters import of_bindings, unknown_values
from lorebind_config.declarations.agents import search_tool_name
from lorebind_knowledge.plumbing.bridge import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.tools import BaseTool

    from lorebind_bindings.injecting import Injection
    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter

_HOW_TO_CITE = "Gives passages with numbers like [1]; cite them by these numbers."
_BLANK = "Nothing was searched: the query is empty. Say what to look for."


class _Arguments(BaseModel):
    query: str = Field(description="The question, or words that its answer contains.")


def knowledge_tool(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    counter: TokenCounter,
    *,
    name: str | None = None,
    description: str = "",
    max_tokens: int | None = None,
) -> BaseTool:
    """Return a LangChain tool with the argument `query` that returns a block of passages.

    The `tool_filters` of the knowledge bases are optional arguments.

    Its artifact is `{"verdict": …, "citations": […]}`, made of plain values. Within an agent, the
    numbering of passages continues after earlier calls, so that a number means one passage in a
    whole conversation. Invalid arguments and blank queries do not raise an error in an agent: the
    model is told about them and can correct them.

    Args:
        service: the project's knowledge.
        bindings: the knowledge bases to search.
        counter: counts the tokens of the model.
        name: the name of the tool; None means `search_` and the ids.
        description: a description of the knowledge, for the model.
        max_tokens: the budget of all passages of a call, see `inject`.
    """

    filters = of_bindings(service, bindings)

    async def search(
        query: str, runtime: Annotated[Any, InjectedToolArg] = None, **values: Any
    ) -> tuple[str, dict[str, Any]]:
        if not query.strip():
            return _BLANK, {"verdict": "fallback", "citations": []}
        where = filters.where(values)
        injection = await inject(
            service,
            [narrowed(binding, where) for binding in bindings] if where else bindings,
            counter,
            query,
            max_tokens=max_tokens,
            first_marker=first_marker(runtime),
        )
        citations = [citation.as_data() for citation in injection.offered]
        text = "\n\n".join(block.text for block in injection.blocks) or _nothing(injection)
        if where and not citations:
            text = await unknown_values(service, bindings, where) or text
        return text, {"verdict": injection.verdict, "citations": citations}

    def search_now(
        query: str, runtime: Annotated[Any, InjectedToolArg] = None, **values: Any
    ) -> tuple[str, dict[str, Any]]:
        return run(search(query, runtime, **values))

    ids = "_".join(binding.id for binding in bindings)
    return StructuredTool.from_function(
        search_now,
        search,
        name=name or search_tool_name(binding.id for binding in bindings),
        description=f"{description or f'Search the knowledge of {ids}.'} {_HOW_TO_CITE}",
        args_schema=filters.extend(_Arguments),
        response_format="content_and_artifact",
        metadata={MOST_KEY: sum(binding.settings.top_k for binding in bindings)},
    )


def _nothing(injection: Injection) -> str:
    failed = [result.binding.id for result in injection.results if result.error]
    if failed:
        return f"The knowledge of {', '.join(failed)} cannot be searched just now."
    reasons = "; ".join(result.shortfall for result in injection.results)
    return f"Nothing was found: {reasons}."
