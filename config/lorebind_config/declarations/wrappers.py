"""`wrappers:` and `extensions:`, code around searches, and code that receives their events."""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticKnownError

from lorebind_config.declarations.base import Declaration, OrForm
from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.declarations.kinds import KindRegistry
from lorebind_config.declarations.values import CLASS_PATH, ClassPath, ConfigMap


class ExtensionBase(Declaration):
    """The base of all extension declarations, including those of plugins."""

    label: ClassVar[str] = "extension"
    kind_key: ClassVar[str] = "provider"

    content: bool | None = Field(
        None,
        description="Whether the extension receives the text of documents and questions, and the "
        "reasons of failures, which may quote them. By default, its class decides; Lorebind's own "
        "extensions receive none.",
    )

    @property
    def written_to(self) -> str | None:
        """The name of an output that only one extension of its provider may have, or None."""
        return None


# Installed extensions receive no events until the project's author declares them here: an extension
# sees the work of all tenants, and a package may have been installed as another one's dependency.
ExtensionDeclaration: TypeAlias = Annotated[
    ExtensionBase,
    KindRegistry("extensions", ExtensionBase),
]
"""An extension, selected by `provider`: built in or from a plugin."""


class _Wrapper(Declaration):
    """The base of all wrappers."""

    label: ClassVar[str] = "wrapper"
    kind_key: ClassVar[str] = "type"


class CacheWrapper(_Wrapper):
    """Returns stored results for repeated searches, until an ingest changes the index or a result
    expires."""

    type: Literal["cache"] = Field(description="Stores the results of searches.")
    max_entries: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="Maximum number of stored results. The least recently used results are removed "
        "first.",
    )
    ttl_seconds: float = Field(
        300,
        gt=0,
        le=31_536_000,
        description="Seconds after which a stored result expires, even if the index is unchanged.",
    )


class RateLimitWrapper(_Wrapper):
    """Limits how often each tenant can search."""

    type: Literal["rate_limit"] = Field(description="Limits the searches of each tenant.")
    queries_per_second: float = Field(
        gt=0,
        le=100_000,
        description="Average number of searches per second; 0.5 means one every two seconds.",
    )
    burst: int = Field(
        1,
        ge=1,
        le=100_000,
        description="Maximum number of searches at the same time after a long enough pause.",
    )
    when_exceeded: Literal["wait", "refuse"] = Field(
        "wait",
        description="`wait`: the search starts later; `refuse`: it fails with an error that says "
        "when to retry.",
    )
    max_wait_seconds: float = Field(
        30,
        gt=0,
        le=3600,
        description="wait: maximum wait in seconds. A search that would have to wait longer fails.",
    )


class RetryWrapper(_Wrapper):
    """Retries calls of a vector database after a lost connection or an overload."""

    type: Literal["retry"] = Field(description="Retries calls of vector databases.")
    retry: RetryConfig = Field(
        default_factory=RetryConfig, description="Number of attempts and the waits between them."
    )


class TracingWrapper(_Wrapper):
    """Creates OpenTelemetry spans for embedders, vector databases and searches."""

    type: Literal["tracing"] = Field(description="Creates OpenTelemetry spans.")
    record_text: bool = Field(
        False,
        description="Whether spans contain questions and embedded texts. They may be confidential.",
    )


class IsolationWrapper(_Wrapper):
    """Checks that each passage of a search result belongs to a knowledge base that was searched."""

    type: Literal["isolation"] = Field(description="Checks the passages of every search.")


class PythonWrapper(_Wrapper):
    """A wrapper from the project folder or an installed package."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    type: Literal["python"] = Field(description="Calls a factory that creates the wrapper.")
    class_path: ClassPath = Field(
        alias="class",
        description="The factory, as 'module:factory', in the project folder or in an installed "
        "package.",
    )
    config: ConfigMap = Field(
        default_factory=dict, description="Arguments of the factory, by name."
    )


def _spelt_out(value: Any) -> Any:
    if isinstance(value, str):
        return {"type": "python", "class": value}
    if not isinstance(value, dict | _Wrapper):
        raise PydanticKnownError("model_attributes_type")
    return value


def _kind_of_wrapper(data: Any) -> Any:
    return data.get("type") if isinstance(data, dict) else getattr(data, "type", None)


WrapperDeclaration: TypeAlias = Annotated[
    Annotated[CacheWrapper, Tag("cache")]
    | Annotated[RateLimitWrapper, Tag("rate_limit")]
    | Annotated[RetryWrapper, Tag("retry")]
    | Annotated[TracingWrapper, Tag("tracing")]
    | Annotated[IsolationWrapper, Tag("isolation")]
    | Annotated[PythonWrapper, Tag("python")],
    Discriminator(_kind_of_wrapper),
    BeforeValidator(_spelt_out),
    OrForm({"type": "string", "pattern": CLASS_PATH}),
]
"""A wrapper, selected by `type`; a string is the path of a factory."""
