"""`extensions:` what is told of every ingest and every search."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.plugging import Open
from lorebind_knowledge.declarations.values import ClassPath, ConfigMap


class ExtensionBase(Declaration):
    """What all extensions declare, those of plugins too."""

    label: ClassVar[str] = "extension"
    kind_key: ClassVar[str] = "provider"


class PythonExtension(ExtensionBase):
    """An extension class in the project folder, or in an installed package."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    provider: Literal["python"] = Field(description="A class that implements hooks.")
    class_path: ClassPath = Field(
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    config: ConfigMap = Field(default_factory=dict, description="Arguments of the class, by name.")


# What is installed is not told of anything before the project's author names it here: an extension
# sees the work of all tenants, and a package may have come along as a dependency of another.
ExtensionDeclaration: TypeAlias = Annotated[
    PythonExtension, Open("extensions", ExtensionBase, PythonExtension)
]
"""One of the extensions, chosen by `provider`: a class or a plugin's."""
