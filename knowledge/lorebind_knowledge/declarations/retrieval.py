"""`retrieval:` how a knowledge base is searched, and what a prompt is given of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from lorebind_knowledge.declarations.base import Declaration, Fault, RefusedError
from lorebind_knowledge.declarations.places import Place
from lorebind_knowledge.declarations.rendering import Render
from lorebind_knowledge.declarations.values import JsonMap
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.filters import compile_filter

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

_INJECT_AS = r"^(?:(?:(?!\{\{)[\s\S])+|\{\{\s*\.workflow\.vars\.[A-Za-z0-9_-]+\s*\}\})$"


def _inject_as(value: str) -> str:
    if not re.fullmatch(_INJECT_AS, value):
        hint = "write a label, or one variable: '{{ .workflow.vars.NAME }}'"
        raise RefusedError([Fault(f"{value!r} names no place in a prompt", hint)])
    return value


InjectAs = Annotated[
    str,
    AfterValidator(_inject_as),
    WithJsonSchema({"type": "string", "pattern": _INJECT_AS}),
]
"""A label or a variable for a block of passages."""


def _well_formed(where: dict[str, Any]) -> dict[str, Any]:
    try:
        compile_filter(where)
    except UsageError as error:
        raise RefusedError([Fault(str(error))]) from None
    return where


Filters = Annotated[JsonMap, AfterValidator(_well_formed)]
"""A filter on the metadata of passages, see `lorebind_knowledge.filters`."""

NOTHING_FOUND = "Nothing was found for this question. Say so, and do not answer from memory."
"""What stands in for passages where nobody has written another text."""

Strategy: TypeAlias = Literal["similarity", "lexical", "mmr", "hybrid", "rerank"]
"""How passages are ranked."""
_WORDS = ("turns", "none")
ScoredOn: TypeAlias = Literal["dense", "lexical", "fused", "rerank"]
"""A figure of a passage that a bar may be about."""


class SmoothingDeclaration(Declaration):
    """How far passages gain from the documents that are near to their own."""

    weight: float = Field(
        0,
        ge=0,
        le=1,
        description="Which part of a passage's fused figure is that of the near documents, each by "
        "its best passage. 0 means none. 0.3 helps a little where short texts lie in groups, as "
        "most abstracts do. With documentation it does harm.",
    )
    documents: int = Field(5, ge=1, le=100, description="How many near documents count.")


class FusionDeclaration(Declaration):
    """How the passages that vectors find and those that words find become one ranking."""

    method: Literal["weighted", "rrf"] = Field(
        "weighted",
        description="`weighted`: the figures, scaled to 0 to 1, added by weight; `rrf`: the ranks. "
        "Ranks do not tell how much better one passage is than the next, and so find rare words "
        "less often.",
    )
    dense_weight: float = Field(
        0.5,
        ge=0,
        le=1,
        description="weighted: the weight of the vectors, which find what is said in other words. "
        "The words have the rest: they find names, numbers and rare words.",
    )
    document_weight: float = Field(
        0.5,
        ge=0,
        le=1,
        description="weighted: which part of the words' figure is that of the whole document of a "
        "passage. It helps where a passage has some of the words, and its document the others. "
        "With 0, only the passage's own words count.",
    )
    smoothing: SmoothingDeclaration = Field(
        default_factory=SmoothingDeclaration,
        description="weighted: what near documents add to a passage.",
    )
    rank_constant: int = Field(60, ge=1, le=1000, description="rrf: the constant k.")
    depth: int = Field(
        100, ge=50, le=1000, description="How many passages of each kind are brought together."
    )

    @model_validator(mode="after")
    def _smooths_figures(self) -> FusionDeclaration:
        if self.method == "rrf" and self.smoothing.weight:
            hint = "leave it out, or write method: weighted"
            raise RefusedError([Fault("rrf cannot smooth: it adds ranks", hint, ("smoothing",))])
        return self

    @property
    def counts_documents(self) -> bool:
        """Whether the words of whole documents count."""
        return self.method == "weighted" and self.document_weight > 0


class RerankerBase(Declaration):
    """What all rerankers declare, those of plugins too."""

    label: ClassVar[str] = "reranker"
    kind_key: ClassVar[str] = "provider"

    candidates: int = Field(50, ge=1, le=200, description="How many passages it is given.")


AnyReranker: TypeAlias = Annotated[
    RerankerBase,
    Place(
        "rerankers",
        RerankerBase,
        {
            "langchain": "lorebind_knowledge.rerankers.langchain",
            "onnx": "lorebind_knowledge.rerankers.onnx",
            "fastembed": "lorebind_knowledge.rerankers.fastembed",
        },
        default="langchain",
    ),
]
"""A reranker, chosen by `provider`: one of these or a plugin's."""


class StageDeclaration(Declaration):
    """Another way to search, used if the ones before it found too little."""

    strategy: Strategy | None = Field(None, description="Another strategy.")
    min_score: float | None = Field(
        None, ge=0, le=1, description="Another `min_score`; null means none."
    )
    min_score_on: ScoredOn | None = Field(None, description="The figure that is compared with it.")
    filters: Filters = Field(default_factory=dict, description="Other filters; {} means none.")

    @model_validator(mode="after")
    def _changes_something(self) -> StageDeclaration:
        if not self.model_fields_set:
            hint = f"write at least one of {', '.join(type(self).model_fields)}"
            raise RefusedError([Fault("the stage is that before it", hint)])
        if "strategy" in self.model_fields_set and self.strategy is None:
            raise RefusedError([Fault("a strategy has to be named", "leave it out", ("strategy",))])
        return self


def _only_the_model(schema: dict[str, Any]) -> None:
    """In JSON Schema: words stand for the other methods."""
    del schema["properties"]["method"]
    schema["required"] = ["model"]
    schema["properties"]["model"] = {
        "type": "string",
        "title": "Model",
        "description": schema["properties"]["model"]["description"],
    }


class CondenseDeclaration(Declaration):
    """A chat model that rewrites a question so that it can be understood alone."""

    label: ClassVar[str] = "condense"

    model_config = ConfigDict(json_schema_extra=_only_the_model)

    method: Literal["turns", "none", "model"] = "model"
    """`turns` and `none` are written as words, not as a mapping."""
    model: str | None = Field(None, description="The id of the chat model.")

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, data: Any) -> Any:
        if isinstance(data, str) and data in _WORDS:
            return {"method": data}
        hint = f"known: {', '.join(_WORDS)}, or a model: {{ model: ID }}"
        if isinstance(data, dict):
            if "method" in data:
                raise RefusedError([Fault("unknown key 'method'", hint, ("method",))])
            if "model" not in data and len(data) == 0:
                raise RefusedError([Fault("condense names no model", hint)])
            return data
        shown = f"{data!r} " if isinstance(data, str) else ""
        raise RefusedError([Fault(f"condense {shown}is not supported", hint)])

    @model_serializer(mode="plain")
    def _as_written(self) -> str | dict[str, str | None]:
        return {"model": self.model} if self.method == "model" else self.method


class _OrWord:
    """In JSON Schema: the declaration, or the word that is short for one."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"enum": list(_WORDS), "type": "string"}, handler(schema)]}


class RetrievalDeclaration(Declaration):
    """How a knowledge base is searched, and what a prompt gets from it."""

    strategy: Strategy = Field(
        "hybrid",
        description="`similarity`: nearest by the cosine of the embeddings; `lexical`: by words, "
        "with BM25; `hybrid`: both, fused; `mmr`: hybrid, and unlike each other; `rerank`: hybrid, "
        "ordered by a reranker.",
    )
    top_k: int = Field(5, ge=1, le=50, description="The most passages to return.")
    min_score: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Passages with a lower cosine are not returned, unless "
        "`min_score_on` names another figure.",
    )
    min_score_on: ScoredOn | None = Field(
        None,
        description="The figure that is compared with `min_score`. By default the cosine, and for "
        "`rerank` the reranker's score.",
    )
    max_tokens: int | None = Field(
        None, ge=1, description="The most tokens that the passages may take in a prompt."
    )
    filters: Filters = Field(
        default_factory=dict, description="Conditions on the metadata of the passages."
    )
    fusion: FusionDeclaration = Field(
        default_factory=FusionDeclaration, description="How vectors and words are brought together."
    )
    mmr_lambda: float = Field(
        0.7, ge=0, le=1, description="mmr: with 1 only relevance counts, with 0 only diversity."
    )
    rerank: AnyReranker | None = Field(
        None, description="The reranker. Only the strategy `rerank` uses it."
    )
    condense: Annotated[CondenseDeclaration, _OrWord()] = Field(
        default_factory=lambda: CondenseDeclaration.model_validate("turns"),
        description="What is searched for if a question follows others in a conversation. "
        "`turns`: the question, and the one before it if it has fewer than 10 words; "
        "`{ model: ID }`: what a chat model makes of the conversation; `none`: the question alone.",
    )
    max_per_document: int | None = Field(
        None,
        ge=1,
        le=50,
        description="How many passages a document gives before passages of other documents come "
        "first that score at least 0.9 times as high. Null means any number.",
    )
    neighbours: int = Field(
        0, ge=0, le=5, description="How many chunks before and after a hit are added to it."
    )
    inject_as: InjectAs | None = Field(
        None,
        description="A label for the block of passages. A prompt can place the block by it: "
        "`context_docs` for `{{ .context_docs }}`, or `{{ .workflow.vars.NAME }}`.",
    )
    render: Render = Field(
        "bullets",
        description="How passages are written: `bullets`, `json`, `xml` or `markdown`; a template "
        "for each passage, which names `{{ .content }}` and `{{ .marker }}`; or the name of a file "
        "with such a template.",
    )
    on_weak: Literal["give", "fallback"] = Field(
        "give",
        description="What happens if even the best passage is further from the question than those "
        "that answer usually are. `give`: the passages are given, and said to match weakly; "
        "`fallback`: the text of `fallback` is used instead. This needs an embedder whose level is "
        "known, and no `min_score`.",
    )
    fallback: str = Field(
        NOTHING_FOUND,
        description="The text used instead of passages when too little is found. An empty text "
        "means none.",
    )
    min_results: int = Field(
        1, ge=1, le=50, description="Fewer passages than this count as nothing found."
    )
    stages: list[StageDeclaration] = Field(
        default_factory=list,
        max_length=5,
        description="Further ways to search. They are tried in order while fewer than "
        "`min_results` passages are found, or none that is likely to answer. Each overrides some "
        "of these settings.",
    )
    on_error: Literal["fail", "fallback", "skip"] = Field(
        "fail",
        description="What happens if the search fails. `fail`: the error ends the call; "
        "`fallback`: the text of `fallback` is used instead; `skip`: nothing is used.",
    )
    tool_fallback: Literal["never", "auto", "escalate"] = Field(
        "never",
        description="What a model can do if the match is weak or too little is found. `auto`: it "
        "gets a tool to search with its own words; `escalate`: it must use a tool before it "
        "answers; `never`: it keeps the tools it has.",
    )
