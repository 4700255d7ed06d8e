"""Lorebind's own chunking strategies, which share their settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError
from lorebind_config.declarations.knowledge_bases import ChunkerBase
from lorebind_knowledge.chunking.joining import JoiningChunker
from lorebind_knowledge.chunking.recursive import JSON, PARAGRAPHS, RecursiveChunker, code_chunker
from lorebind_knowledge.chunking.sections import HTML, MARKDOWN, SectionChunker
from lorebind_knowledge.chunking.semantic_settings import SemanticDeclaration
from lorebind_knowledge.chunking.windows import WindowChunker

if TYPE_CHECKING:
    from lorebind_knowledge.chunking.base import Chunker
    from lorebind_knowledge.chunking.make import ChunkerEnvironment
    from lorebind_knowledge.chunking.recursive import Level

DEFAULTS = {"characters": (800, 120), "tokens": (200, 30)}
"""Size and overlap for each unit; both pairs are about equally long in English text."""
DEFAULT_UNIT = "characters"
_MEASURES = ("size", "overlap", "unit")

Language: TypeAlias = Literal[
    "c",
    "cobol",
    "cpp",
    "csharp",
    "elixir",
    "go",
    "haskell",
    "html",
    "java",
    "js",
    "kotlin",
    "latex",
    "lua",
    "markdown",
    "php",
    "powershell",
    "proto",
    "python",
    "r",
    "rst",
    "ruby",
    "rust",
    "scala",
    "sol",
    "swift",
    "ts",
    "visualbasic6",
]
"""The languages that LangChain's splitter has separators for, under its names."""


# When a declaration is refused, loading reads the rest of it with stand-ins for the invalid values.
# So the values below may have any type.


def _usual_unit(data: dict[str, Any]) -> Any:
    return "tokens" if data["strategy"] == "token" else DEFAULT_UNIT


def _usual_size(data: dict[str, Any]) -> int:
    return DEFAULTS.get(data["unit"], DEFAULTS[DEFAULT_UNIT])[0]


def _usual_overlap(data: dict[str, Any]) -> int:
    size, (_, usual) = data["size"], DEFAULTS.get(data["unit"], DEFAULTS[DEFAULT_UNIT])
    return size // 8 if isinstance(size, int) and size <= usual else usual


def _when(strategy: str, **then: Any) -> dict[str, Any]:
    chosen = {"required": ["strategy"], "properties": {"strategy": {"const": strategy}}}
    return {"if": chosen, "then": then}


def _only_with(strategy: str, key: str, kind: str) -> dict[str, Any]:
    written = {"required": [key], "properties": {key: {"type": kind}}}
    then = {"required": ["strategy"], "properties": {"strategy": {"const": strategy}}}
    return {"if": written, "then": then}


class ChunkingDeclaration(ChunkerBase):
    """The chunking of a knowledge base: how documents are split into chunks."""

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_settings_belong`
            "allOf": [
                _only_with("semantic", "semantic", "object"),
                _only_with("code", "language", "string"),
                _when("code", required=["language"], properties={"language": {"type": "string"}}),
                _when("token", properties={"unit": {"const": "tokens"}}),
                _when("semantic", properties=dict.fromkeys(_MEASURES, False)),
            ]
        }
    )

    strategy: Literal[
        "recursive_text_splitter", "token", "fixed", "markdown", "html", "json", "code", "semantic"
    ] = Field(
        "recursive_text_splitter",
        description="Where to split documents. `recursive_text_splitter`: at paragraphs, then "
        "lines, then words; `token` and `fixed`: after a number of tokens or units; `markdown` and "
        "`html`: by headings and blocks; `json`: at records; `code`: by a language's syntax; "
        "`semantic`: where the subject changes.",
    )
    unit: Literal["characters", "tokens"] = Field(
        default_factory=_usual_unit,
        description="The unit of size and overlap. Tokens are counted with o200k_base. Default: "
        "`tokens` for the strategy `token`, `characters` for the others.",
    )
    size: int = Field(
        default_factory=_usual_size,
        ge=64,
        le=8192,
        description="Maximum number of units per chunk. Default: 800 characters or 200 tokens. A "
        "chunk that is hardly more than punctuation, links or markup joins a neighbor, and a row "
        "of dashes does even if the result is larger.",
    )
    overlap: int = Field(
        default_factory=_usual_overlap,
        ge=0,
        description="Number of units that a chunk repeats from the previous one; less than size. "
        "Default: 120 characters or 30 tokens; an eighth of size if size is not larger than that.",
    )
    language: Language | None = Field(
        None, description="The programming language; required by the strategy `code`."
    )
    semantic: SemanticDeclaration = Field(
        default_factory=SemanticDeclaration, description="Settings of the strategy `semantic`."
    )

    @property
    def exceeds_default(self) -> bool:
        if self.strategy == "semantic":
            return self.semantic.max_tokens > SemanticDeclaration().max_tokens
        return self.size > DEFAULTS[self.unit][0]

    @model_validator(mode="after")
    def _settings_belong(self) -> ChunkingDeclaration:
        if faults := list(self._foreign_settings()):
            raise RefusedError(faults)
        return self

    def _foreign_settings(self) -> Iterator[Fault]:
        """Yield a fault for each setting that would have no effect or is missing."""
        strategy, written = self.strategy, self.model_fields_set
        if strategy != "semantic" and "semantic" in written:
            yield _foreign("semantic", strategy, "it is for the strategy 'semantic'")
        if strategy != "code" and self.language is not None:
            yield _foreign("language", strategy, "it is for the strategy 'code'")
        if strategy == "code" and self.language is None:
            hint = "write for example 'language: python'"
            yield Fault("the strategy 'code' needs a language", hint)
        if strategy == "token" and self.unit != "tokens":
            hint = "omit it, or choose the strategy 'fixed'"
            yield Fault("the strategy 'token' always counts tokens", hint, ("unit",))
        if strategy == "semantic":
            for key in sorted(written.intersection(_MEASURES)):
                hint = "semantic.min_tokens and semantic.max_tokens set the size"
                yield _foreign(key, strategy, hint)
        elif self.overlap >= self.size:
            hint = f"expected 0 to {self.size - 1}, less than the size of {self.size}"
            yield Fault(f"overlap is {self.overlap}", hint, ("overlap",))


def _foreign(key: str, strategy: str, hint: str) -> Fault:
    return Fault(f"{key} has no effect with the strategy {strategy!r}", hint, (key,))


Declaration = ChunkingDeclaration


_LEVELS: dict[str, tuple[type[RecursiveChunker], tuple[Level, ...], str]] = {
    "recursive_text_splitter": (RecursiveChunker, PARAGRAPHS, "recursive_text_splitter/2"),
    "markdown": (SectionChunker, MARKDOWN, "markdown/2"),
    "html": (SectionChunker, HTML, "html/2"),
    "json": (RecursiveChunker, JSON, "json/1"),
}
"""The strategies that differ by where they cut, with their names in fingerprints."""


def make(declaration: ChunkingDeclaration, environment: ChunkerEnvironment) -> Chunker:
    size, overlap, unit = declaration.size, declaration.overlap, declaration.unit
    chunker: Chunker
    match declaration.strategy:
        case "fixed" | "token":
            chunker = WindowChunker(size, overlap, unit)
        case "code":
            assert declaration.language is not None  # the declaration is refused without it
            chunker = code_chunker(declaration.language, size, overlap, unit)
        case "semantic":
            from lorebind_knowledge.chunking.semantic import SemanticChunker  # few use it

            semantic = declaration.semantic
            chunker = SemanticChunker(semantic, environment.embed, environment.embedder)
            size, unit = semantic.max_tokens, "tokens"
        case strategy:
            kind, levels, name = _LEVELS[strategy]
            chunker = kind(size, overlap, unit, levels, name)
    return JoiningChunker(chunker, size, unit)
