"""`retrieval:` how a knowledge base is searched, and how its passages are put into a prompt."""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    model_serializer,
    model_validator,
)

from lorebind_config.declarations.base import (
    Declaration,
    Fault,
    Matching,
    OrForm,
    RefusedError,
    empty_list,
    refused,
)
from lorebind_config.declarations.kinds import KindRegistry
from lorebind_config.declarations.newest import RecencyDeclaration, VersionsDeclaration
from lorebind_config.declarations.rendering import Render
from lorebind_config.declarations.values import DATES_AS_TEXT, JsonMap
from lorebind_config.errors import UsageError
from lorebind_config.filters import compile_filter

_INJECT_AS = r"^(?:(?:(?!\{\{)[\s\S])+|\{\{\s*\.workflow\.vars\.[A-Za-z0-9_-]+\s*\}\})$"


InjectAs = Annotated[
    str,
    Matching(
        _INJECT_AS,
        "{!r} is neither a label nor one variable",
        "write a label, or one variable: '{{ .workflow.vars.NAME }}'",
    ),
]
"""The name of a block of passages: a label or a variable."""


def _well_formed(where: dict[str, Any]) -> dict[str, Any]:
    try:
        compile_filter(where)
    except UsageError as error:
        faults = [Fault(str(mistake), path=mistake.at) for mistake in error.all or [error]]
        raise RefusedError(faults) from None
    return where


Filters = Annotated[JsonMap, DATES_AS_TEXT, AfterValidator(_well_formed)]
"""A filter on the metadata of passages, see `lorebind_config.filters`."""

NOTHING_FOUND = "Nothing was found for this question. Say so, and do not answer from memory."
"""The default of `fallback`: the text that replaces passages in a prompt."""

Strategy: TypeAlias = Literal["similarity", "lexical", "mmr", "hybrid", "rerank"]
"""A method of ranking passages."""
NEEDS_WORDS, NEEDS_VECTORS = ("hybrid", "lexical"), ("similarity", "mmr")
"""The strategies that need a word index, and those that need vectors."""
ReadTool: TypeAlias = Literal["list_documents", "find", "fetch"]
"""A tool with which a model reads documents."""
_WORDS = ("turns", "none")
_OR_WORD = OrForm({"enum": list(_WORDS), "type": "string"})
ScoredOn: TypeAlias = Literal["dense", "lexical", "terms", "fused", "rerank"]
"""A score of a passage that can be its relevance."""

Level: TypeAlias = Annotated[float | None, Field(ge=0, le=1)]
"""A relevance, or None: no match is weak."""


class SmoothingDeclaration(Declaration):
    """Smoothing: the scores of similar documents raise the score of a passage."""

    weight: float = Field(
        0,
        ge=0,
        le=1,
        description="Share of a passage's fused score that comes from the documents most similar "
        "to its own, each with the score of its best passage. 0 turns smoothing off. 0.3 helps a "
        "little for short texts in groups of similar ones, such as abstracts. It makes the results "
        "of documentation worse.",
    )
    documents: int = Field(
        5, ge=1, le=100, description="Number of similar documents that are taken into account."
    )


class Shares(NamedTuple):
    """The shares of the signals in the fused score of a passage; they add up to 1."""

    dense: float
    lexical: float
    terms: float


class SignalsDeclaration(Declaration):
    """How much each signal counts in the fused score, relative to the others."""

    dense: float = Field(
        0.55,
        ge=0,
        le=1,
        description="The share of the vectors. Raise it if questions use other words than the "
        "documents. Lower it if questions contain names, numbers or rare words.",
    )
    lexical: float = Field(
        0.3,
        ge=0,
        le=1,
        description="The share of the words, by BM25. If a passage has nearly all words of the "
        "question, up to 0.2 moves from the vectors to the words.",
    )
    terms: float = Field(
        0.15,
        ge=0,
        le=1,
        description="The share of the terms of the sparse embedder: related words that a question "
        "and a passage have in common. Without a sparse embedder, the words have this share too.",
    )

    @model_validator(mode="after")
    def _counts_something(self) -> Self:
        if not self.dense and not self.lexical + self.terms:
            raise refused("no signal counts", "write a share above 0 for at least one")
        return self

    def with_dense(self, share: float) -> Self:
        """Return the signals with this share of the vectors; the others divide the rest as here."""
        others = self.lexical + self.terms
        of_terms = self.terms / others if others else 0.0
        rest = {"lexical": (1 - share) * (1 - of_terms), "terms": (1 - share) * of_terms}
        return self.model_copy(update={"dense": share, **rest})

    def without_terms(self) -> Self:
        """Return the signals with the share of the terms given to the words."""
        return self.model_copy(update={"lexical": self.lexical + self.terms, "terms": 0.0})

    def shares(self, *, dense: bool = True, terms: bool) -> Shares:
        """Return the shares, with or without the signals `dense` and `terms`."""
        of_vectors = self.dense if dense else 0.0
        of_words = self.lexical if terms else self.lexical + self.terms
        of_terms = self.terms if terms else 0.0
        total = of_vectors + of_words + of_terms
        return Shares(of_vectors / total, of_words / total, of_terms / total)


class FusionDeclaration(Declaration):
    """Settings for merging the results of vectors, words and terms into one ranking."""

    method: Literal["weighted", "rrf"] = Field(
        "weighted",
        description="`weighted`: the weighted sum of the scores, each scaled to 0 to 1; `rrf`: "
        "reciprocal rank fusion, which uses ranks only. Ranks do not tell how much better one "
        "passage is than the next, so `rrf` finds rare words less often.",
    )
    document_weight: float = Field(
        0.5,
        ge=0,
        le=1,
        description="weighted: the share of the word score that comes from the passage's whole "
        "document. It helps if some words of a question are in the passage and others elsewhere in "
        "its document. With 0, only the words of the passage count.",
    )
    smoothing: SmoothingDeclaration = Field(
        default_factory=SmoothingDeclaration,
        description="weighted: settings for raising the score of a passage by similar documents.",
    )
    rank_constant: int = Field(
        60,
        ge=1,
        le=1000,
        description="rrf: the constant k in 1 / (k + rank). A higher value makes the first ranks "
        "count less.",
    )
    depth: int = Field(
        100,
        ge=50,
        le=1000,
        description="Number of passages from each of the searches that are merged.",
    )

    @model_validator(mode="after")
    def _smooths_figures(self) -> Self:
        if self.method == "rrf" and self.smoothing.weight:
            hint = "remove it, or write method: weighted"
            raise refused("rrf cannot smooth: it adds ranks", hint, "smoothing")
        return self

    @property
    def counts_documents(self) -> bool:
        """Whether the words of whole documents affect the ranking."""
        return self.method == "weighted" and self.document_weight > 0


class RerankerBase(Declaration):
    """The base of all reranker declarations, including those of plugins."""

    label: ClassVar[str] = "reranker"
    kind_key: ClassVar[str] = "provider"

    candidates: int = Field(
        50,
        ge=1,
        le=200,
        description="Number of passages that the reranker orders. More can improve the results and "
        "take longer.",
    )
    weak_below: Level = Field(
        None,
        description="The reranker's score that the best passage usually reaches if it answers the "
        "question. Below it, a match is weak. By default the `weak_below` of the knowledge base, "
        "if it sets one. null: no match is weak.",
    )


AnyReranker: TypeAlias = Annotated[
    RerankerBase,
    KindRegistry("rerankers", RerankerBase, default="langchain"),
]
"""A reranker, selected by `provider`: built in or from a plugin."""


class StageDeclaration(Declaration):
    """A further search that is tried if the searches before it found too little."""

    strategy: Strategy | None = Field(None, description="The strategy of this search.")
    min_score: float | None = Field(
        None, ge=0, le=1, description="The `min_score` of this search; null means none."
    )
    min_score_on: ScoredOn | None = Field(
        None, description="The score that is the relevance of a passage."
    )
    filters: Filters = Field(
        default_factory=dict, description="The filters of this search; {} means none."
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set:
            hint = f"write at least one of {', '.join(type(self).model_fields)}"
            raise refused("the stage changes nothing", hint)
        if "strategy" in self.model_fields_set and self.strategy is None:
            raise refused("strategy cannot be null", "remove it", "strategy")
        return self


def _only_the_model(schema: dict[str, Any]) -> None:
    """Describe only the model in JSON Schema; the other methods are written as words."""
    del schema["properties"]["method"]
    schema["required"] = ["model"]
    schema["properties"]["model"] = {
        "type": "string",
        "title": "Model",
        "description": schema["properties"]["model"]["description"],
    }


class CondenseDeclaration(Declaration):
    """A chat model that rewrites a question to be understood without the conversation."""

    label: ClassVar[str] = "condense"

    model_config = ConfigDict(json_schema_extra=_only_the_model)

    method: Literal["turns", "none", "model"] = "model"
    """`turns` and `none` are written as words, without a mapping."""
    model: str | None = Field(None, description="The id of the chat model.")

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, data: Any) -> Any:
        if isinstance(data, str) and data in _WORDS:
            return {"method": data}
        hint = f"known: {', '.join(_WORDS)}, or a model: {{ model: ID }}"
        if isinstance(data, dict):
            if "method" in data:
                raise refused("unknown key 'method'", hint, "method")
            if "model" not in data and len(data) == 0:
                raise refused("condense names no model", hint)
            return data
        word = f"{data!r} " if isinstance(data, str) else ""
        raise refused(f"condense {word}is not supported", hint)

    @model_serializer(mode="plain")
    def _as_written(self) -> str | dict[str, str | None]:
        return {"model": self.model} if self.method == "model" else self.method


class RetrievalDeclaration(Declaration):
    """Settings for searching a knowledge base and for putting its passages into a prompt."""

    strategy: Strategy = Field(
        "hybrid",
        description="`similarity`: by the cosine of the embeddings; `lexical`: by words, with "
        "BM25; `hybrid`: both, and the terms of the sparse embedder, fused; `mmr`: hybrid, with "
        "passages that differ from each other; `rerank`: hybrid, then ordered by a reranker.",
    )
    top_k: int = Field(5, ge=1, le=50, description="Maximum number of passages to return.")
    min_score: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Minimum relevance of a passage. Passages below it are not returned. Raise it "
        "if searches return passages that do not match.",
    )
    min_score_on: ScoredOn | None = Field(
        None,
        description="The score that is the relevance of a passage. By default the cosine "
        "(`dense`), and for the strategy `rerank` the reranker's score. Without vectors, "
        "`coverage`: how many of the question's words the passage has; rare ones count more.",
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum number of tokens for the passages in a prompt. By default, all "
        "knowledge bases without a limit share 4096 tokens. Raise it if good passages are missing "
        "from prompts.",
    )
    filters: Filters = Field(
        default_factory=dict, description="Conditions that the metadata of the passages must meet."
    )
    signals: SignalsDeclaration = Field(
        default_factory=SignalsDeclaration,
        description="How much vectors, words and terms count. The method `weighted` uses it.",
    )
    fusion: FusionDeclaration = Field(
        default_factory=FusionDeclaration,
        description="Settings for merging the results of vectors, words and terms.",
    )
    mmr_lambda: float = Field(
        0.7,
        ge=0,
        le=1,
        description="mmr: the balance between relevance and diversity. 1: only relevance counts; "
        "0: only diversity counts.",
    )
    rerank: AnyReranker | None = Field(
        None, description="The reranker. The strategy `rerank` needs it; others ignore it."
    )
    condense: Annotated[CondenseDeclaration, _OR_WORD] = Field(
        default_factory=lambda: CondenseDeclaration.model_validate("turns"),
        description="The search text for a question that follows others in a conversation. "
        "`turns`: a question of fewer than 10 words is searched together with the question before "
        "it; `{ model: ID }`: a chat model rewrites the question to be understood without the "
        "conversation; `none`: the question is searched as it is.",
    )
    max_per_document: int | None = Field(
        None,
        ge=1,
        le=50,
        description="Number of passages of one document after which passages of other documents "
        "are preferred, if their scores are at least 0.9 times as high. null: no preference.",
    )
    recency: RecencyDeclaration | None = Field(
        None,
        description="How much newer documents come before older ones. It changes the order of the "
        "passages only, not their scores, their relevance or the verdict. null: not at all.",
    )
    versions: VersionsDeclaration | None = Field(
        None,
        description="Documents that are versions of the same document: searches find the newest "
        "only, of those that pass the filters. null: searches find all.",
    )
    neighbours: int = Field(
        0,
        ge=0,
        le=5,
        description="Number of chunks before and after each found chunk that are added to it. "
        "Raise it if passages lack context.",
    )
    inject_as: InjectAs | None = Field(
        None,
        description="A label for the block of passages, such as `context_docs`, or a variable, "
        "`{{ .workflow.vars.NAME }}`. A prompt that contains `{{ .context_docs }}`, or the "
        "variable, has the block at that position.",
    )
    render: Render = Field(
        "bullets",
        description="The format of passages in a prompt: `bullets`, `json`, `xml` or "
        "`markdown`; a template for each passage, such as `{{ .marker }} {{ .content }}`; or the "
        "name of a file with such a template.",
    )
    on_weak: Literal["give", "fallback"] = Field(
        "give",
        description="The response to a weak match: the relevance of the best passage is below the "
        "`weak_below` of the knowledge base, its embedder or the reranker. `give`: the prompt "
        "contains the passages and a note that they match weakly; `fallback`: the text of "
        "`fallback` is used instead.",
    )
    fallback: str = Field(
        NOTHING_FOUND,
        description="The text that the prompt contains instead of passages when too little is "
        "found. An empty string means no text.",
    )
    min_results: int = Field(
        1,
        ge=1,
        le=50,
        description="Minimum number of passages. If fewer are found, it counts as nothing found.",
    )
    stages: list[StageDeclaration] = Field(
        default_factory=empty_list,
        max_length=5,
        description="Further searches, tried in order while fewer than `min_results` passages are "
        "found or the match is weak. Each overrides some of these settings.",
    )
    on_error: Literal["fail", "fallback", "skip"] = Field(
        "fail",
        description="The response to a failed search. `fail`: the call ends with the error; "
        "`fallback`: the text of `fallback` is used instead; `skip`: the prompt contains nothing.",
    )
    tool_fallback: Literal["never", "auto", "escalate"] = Field(
        "never",
        description="The options of the model if the match is weak or too little is found. "
        "`auto`: it gets a tool to search with its own words; `escalate`: it must call a tool "
        "before it answers; `never`: it gets no additional tool.",
    )
    read_tools: list[ReadTool] = Field(
        default_factory=empty_list,
        description="Tools for the model beside the passages in its prompt. `list_documents`: the "
        "documents with their metadata; `find`: the lines with exact words, or that match a "
        "regular expression; `fetch`: the lines of a document.",
    )

    @property
    def relevance_is(self) -> ScoredOn:
        """The name of the score that is the relevance of a passage."""
        return self.min_score_on or ("rerank" if self.strategy == "rerank" else "dense")


class WeakLevels(NamedTuple):
    """The levels of a knowledge base. Each score that can be the relevance has a scale of its own,
    so the level of an embedder is about cosines, and that of a reranker about its scores."""

    cosine: float | None = None
    """The level for cosines: that of the knowledge base, or else of its embedder."""
    other: float | None = None
    """The level for all other scores, set for the knowledge base."""

    def of(self, settings: RetrievalDeclaration) -> float | None:
        """Return the level for searches with these settings; None: no match is weak."""
        if settings.relevance_is == "dense":
            return self.cosine
        reranker = settings.rerank if settings.relevance_is == "rerank" else None
        if reranker is not None and (
            "weak_below" in reranker.model_fields_set or reranker.weak_below is not None
        ):
            return reranker.weak_below
        return self.other
