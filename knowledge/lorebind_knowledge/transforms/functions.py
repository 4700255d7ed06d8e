"""The step `function`: a function of the project folder or of an installed package."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.checks.named_code import code_version, named_object
from lorebind_config.declarations.knowledge_bases import DocumentTransformBase
from lorebind_config.declarations.objects import FactoryOrObject
from lorebind_config.declarations.values import ConfigMap
from lorebind_config.errors import UsageError
from lorebind_config.namespace import digest

if TYPE_CHECKING:
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.loaders.base import LoadedDocument

_PLACE = ("function",)


class FunctionStep(DocumentTransformBase):
    """A function in the project folder, or in an installed package."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    type: Literal["function"] = Field("function", description="Calls a function.")
    function: FactoryOrObject = Field(
        description="The function, as 'module:function'. It receives a `LoadedDocument`, and the "
        "uri if it has a parameter `uri`, and returns the changed document, or a list of documents."
    )
    config: ConfigMap = Field(
        default_factory=dict, description="Further arguments of the function, by name."
    )


Declaration = FunctionStep


def make(declaration: FunctionStep, environment: PartEnvironment) -> FunctionTransform:
    """Return the step of a declaration.

    Raises:
        UsageError: it names no function, or one that is async or takes other arguments.
    """
    expected = "a function from the project folder or an installed package"
    function = named_object(declaration, environment, _PLACE, expected)
    arguments = environment.fill(dict(declaration.config))
    signature = inspect.signature(function)
    takes_uri = "uri" in signature.parameters
    if inspect.iscoroutinefunction(function):
        raise UsageError(f"the step {declaration.function} is async; write it as def")
    try:
        signature.bind(None, **arguments, **({"uri": ""} if takes_uri else {}))
    except TypeError as error:
        raise UsageError(f"the step {declaration.function}: {error}") from error
    version = code_version(declaration.function, function, environment.root)
    return FunctionTransform(function, arguments, version, takes_uri=takes_uri)


class FunctionTransform:
    """A function as a `DocumentTransform`."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        version: str,
        *,
        takes_uri: bool,
    ) -> None:
        self._function, self._arguments, self._takes_uri = function, arguments, takes_uri
        values = json.dumps(arguments, sort_keys=True)
        self.fingerprint = digest(version, values)[:16]

    def transform(
        self, document: LoadedDocument, uri: str
    ) -> LoadedDocument | Sequence[LoadedDocument]:
        place = {"uri": uri} if self._takes_uri else {}
        changed: LoadedDocument | Sequence[LoadedDocument] = self._function(
            document, **place, **self._arguments
        )
        return changed
