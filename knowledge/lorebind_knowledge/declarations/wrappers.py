"""`wrappers:` what stands around embedders, vector databases and searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.embedders import RetryConfig
from lorebind_knowledge.declarations.values import CLASS_PATH, ClassPath, ConfigMap

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema


class _Wrapper(Declaration):
    label: ClassVar[str] = "wrapper"
    kind_key: ClassVar[str] = "type"


class CacheWrapper(_Wrapper):
    """Answers a question that was asked before, until an ingest or the time makes it old."""

    type: Literal["cache"] = Field(description="Keeps what searches found.")
    max_entries: int = Field(
        1000, ge=1, le=1_000_000, description="The most answers kept; the oldest make room."
    )
    ttl_seconds: float = Field(
        300, gt=0, le=31_536_000, description="How long an answer may be given again."
    )


class RateLimitWrapper(_Wrapper):
    """Bounds how often a tenant may search."""

    type: Literal["rate_limit"] = Field(description="Bounds the searches of each tenant.")
    queries_per_second: float = Field(
        gt=0, le=100_000, description="How many, in the long run; 0.5 is one every two seconds."
    )
    burst: int = Field(
        1, ge=1, le=100_000, description="How many at once after a pause that was long enough."
    )
    when_exceeded: Literal["wait", "refuse"] = Field(
        "wait", description="`wait`: the search begins later; `refuse`: an error says when."
    )
    max_wait_seconds: float = Field(
        30, gt=0, le=3600, description="wait: a search that would begin later still is refused."
    )


class RetryWrapper(_Wrapper):
    """Asks a vector database again that failed in passing: a lost connection, an overload."""

    type: Literal["retry"] = Field(description="Repeats calls of vector databases.")
    retry: RetryConfig = Field(
        default_factory=RetryConfig, description="How often and how patiently."
    )


class TracingWrapper(_Wrapper):
    """OpenTelemetry spans around embedders, vector databases and searches."""

    type: Literal["tracing"] = Field(description="Makes spans.")
    record_text: bool = Field(
        False, description="Write questions, and the texts that are embedded, into the spans."
    )


class IsolationWrapper(_Wrapper):
    """Checks that each passage that a search finds belongs to the knowledge base it searched."""

    type: Literal["isolation"] = Field(description="Checks whose passages they are.")


class PythonWrapper(_Wrapper):
    """A wrapper of the project's own, or of an installed package."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    type: Literal["python"] = Field(description="What a factory makes.")
    class_path: ClassPath = Field(
        alias="class",
        description="The factory, as 'module:factory', in the project folder or installed.",
    )
    config: ConfigMap = Field(
        default_factory=dict, description="Arguments of the factory, by name."
    )


class _InOneWord:
    """`module:factory` alone stands for a whole declaration: in JSON Schema too."""

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        made = handler(schema)
        choices = [{"type": "string", "pattern": CLASS_PATH}, *made.get("oneOf", [made])]
        return {"anyOf": choices}


def _spelt_out(value: Any) -> Any:
    return {"type": "python", "class": value} if isinstance(value, str) else value


WrapperDeclaration: TypeAlias = Annotated[
    CacheWrapper
    | RateLimitWrapper
    | RetryWrapper
    | TracingWrapper
    | IsolationWrapper
    | PythonWrapper,
    Field(discriminator="type"),
    BeforeValidator(_spelt_out),
    _InOneWord(),
]
"""One of the wrappers, chosen by `type`; a text is the path of a factory."""
