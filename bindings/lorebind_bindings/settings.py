"""Settings that a call can override, typed for type checkers and editors.

All keys are optional. None keeps the declared value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.documents import Document
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import MessageLikeRepresentation
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

    from lorebind_config.declarations.newest import RecencyDeclaration, VersionsDeclaration
    from lorebind_config.declarations.retrieval import (
        CondenseDeclaration,
        FusionDeclaration,
        ReadTool,
        RerankerBase,
        ScoredOn,
        SignalsDeclaration,
        StageDeclaration,
        Strategy,
    )
    from lorebind_prompts import RetrievedContext


class RetrievalSettings(TypedDict, total=False):
    """The fields of `retrieval` that a call can override, see `RetrievalDeclaration`."""

    strategy: Strategy | None
    top_k: int | None
    min_score: float | None
    min_score_on: ScoredOn | None
    max_tokens: int | None
    filters: Mapping[str, Any] | None
    signals: Mapping[str, Any] | SignalsDeclaration | None
    fusion: Mapping[str, Any] | FusionDeclaration | None
    mmr_lambda: float | None
    rerank: Mapping[str, Any] | RerankerBase | None
    condense: Literal["turns", "none"] | Mapping[str, Any] | CondenseDeclaration | None
    max_per_document: int | None
    recency: Mapping[str, Any] | RecencyDeclaration | None
    versions: Mapping[str, Any] | VersionsDeclaration | None
    neighbours: int | None
    inject_as: str | None
    render: str | None
    on_weak: Literal["give", "fallback"] | None
    fallback: str | None
    min_results: int | None
    stages: list[dict[str, Any]] | list[StageDeclaration] | None
    on_error: Literal["fail", "fallback", "skip"] | None
    tool_fallback: Literal["never", "auto", "escalate"] | None
    read_tools: Sequence[ReadTool] | None


class RetrieverSettings(RetrievalSettings, total=False):
    """The fields of `retrieval` and those of a `LorebindRetriever`."""

    k: int | None
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None


class PromptSettings(RetrievalSettings, total=False):
    """The fields of `retrieval` and those of a `KnowledgePrompt`."""

    model: str | BaseChatModel | None
    template: str | None
    instructions: str | None


class ToolSettings(RetrievalSettings, total=False):
    """The fields of `retrieval` and those of a tool that searches."""

    model: str | BaseChatModel | None
    name: str | None
    description: str | None


class ReadSettings(RetrievalSettings, total=False):
    """The fields of `retrieval` and those of the tools that search and read."""

    model: str | BaseChatModel | None
    description: str | None


class GenerateSettings(RetrievalSettings, total=False):
    """The fields of `retrieval` and those of a `Request` except its prompt.

    `max_tokens` is the field of the request.
    """

    query: str | None
    instructions: str
    history: Sequence[MessageLikeRepresentation]
    attachments: Sequence[Mapping[str, Any]]
    retrieved_contexts: Sequence[RetrievedContext | Document] | None
    config: RunnableConfig | None
    tools: Sequence[BaseTool]
    max_iterations: int
    output_schema: Mapping[str, Any] | None
    model_settings: Mapping[str, Any]


REQUEST_SETTINGS = GenerateSettings.__optional_keys__ - (
    RetrievalSettings.__optional_keys__ - {"max_tokens"}
)
"""The fields of a `Request` that a call can set."""
