"""Make extensions from their declarations; `python` is a class that the project names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.checks.named_code import named_class
from lorebind_config.declarations.values import ClassPath, ConfigMap
from lorebind_config.declarations.wrappers import ExtensionBase
from lorebind_config.errors import UsageError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_knowledge.events import Extension

if TYPE_CHECKING:
    from lorebind_config.templates import Environment


def make_extensions(
    declarations: Sequence[ExtensionBase], environment: Environment
) -> list[Extension]:
    """Make the declared extensions, in their order.

    Raises:
        UsageError: one cannot be imported, or does not accept the declared configuration.
        PluginError: a plugin is broken.
    """
    # `logging` is made first, so that it also formats the warnings of those that are made later.
    order = sorted(range(len(declarations)), key=lambda n: _kind(declarations[n]) != "logging")
    extensions = {number: _make(declarations[number], environment) for number in order}
    return [extensions[number] for number in range(len(declarations))]


def _make(declaration: ExtensionBase, environment: Environment) -> Extension:
    extension = make_part("extensions", declaration, PartEnvironment(environment), (), UsageError)
    if not isinstance(extension, Extension):
        raise UsageError(
            f"extension {_kind(declaration)!r} made a {type(extension).__name__}, which is not "
            "derived from lorebind.Extension"
        )
    if declaration.content is not None:
        extension.content = declaration.content
    return extension


def _kind(declaration: ExtensionBase) -> str:
    kind: str = getattr(declaration, declaration.kind_key)
    return kind


class PythonExtension(ExtensionBase):
    """An extension class in the project folder, or in an installed package."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    provider: Literal["python"] = Field(description="A class that implements hooks.")
    class_path: ClassPath = Field(
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    config: ConfigMap = Field(default_factory=dict, description="Arguments of the class, by name.")


Declaration = PythonExtension


def make(declaration: PythonExtension, environment: PartEnvironment) -> Any:
    expected = "a class derived from lorebind.Extension"
    kind = named_class(declaration, environment, expected, Extension)
    return kind(**environment.fill(dict(declaration.config)))
