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
    """Gives the same answer to the same question, until an ingest or until it is too old."""

    type: Literal["cache"] = Field(description="Keeps the results of searches.")
    max_entries: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="How many results are kept. The oldest are removed first.",
    )
    ttl_seconds: float = Field(
        300, gt=0, le=31_536_000, description="How long a result is used again."
    )


class RateLimitWrapper(_Wrapper):
    """Bounds how often a tenant may search."""

    type: Literal["rate_limit"] = Field(description="Bounds the searches of each tenant.")
    queries_per_second: float = Field(
        gt=0,
        le=100_000,
        description="How many searches on average; 0.5 means one every two seconds.",
    )
    burst: int = Field(
        1, ge=1, le=100_000, description="How many searches at once after a long enough pause."
    )
    when_exceeded: Literal["wait", "refuse"] = Field(
        "wait",
        description="`wait`: the search begins later; `refuse`: it fails, and the error says when "
        "to try again.",
    )
    max_wait_seconds: float = Field(
        30, gt=0, le=3600, description="wait: a search that would have to wait longer fails."
    )


class RetryWrapper(_Wrapper):
    """Repeats calls of a vector database after a lost connection or an overload."""

    type: Literal["retry"] = Field(description="Repeats calls of vector databases.")
    retry: RetryConfig = Field(
        default_factory=RetryConfig, description="How often, and how long to wait."
    )


class TracingWrapper(_Wrapper):
    """OpenTelemetry spans around embedders, vector databases and searches."""

    type: Literal["tracing"] = Field(description="Writes spans.")
    record_text: bool = Field(
        False, description="Write questions, and the texts that are embedded, into the spans."
    )


class IsolationWrapper(_Wrapper):
    """Checks that each passage that a search finds belongs to the knowledge base it searched."""

    type: Literal["isolation"] = Field(description="Checks the passages of every search.")


class PythonWrapper(_Wrapper):
    """A wrapper in the project folder, or in an installed package."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    type: Literal["python"] = Field(description="A wrapper that a factory makes.")
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
