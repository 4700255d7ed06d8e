"""The extension `python`: a class that the project names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.checks.named_code import named_class
from lorebind_config.declarations.extensions import ExtensionBase
from lorebind_config.declarations.values import ClassPath, ConfigMap
from lorebind_knowledge.events import Extension

if TYPE_CHECKING:
    from lorebind_config.reading.make_part import PartEnvironment


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
