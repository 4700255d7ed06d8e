"""`extensions:` what is told of every ingest and every search."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.places import Place


class ExtensionBase(Declaration):
    """What all extensions declare, those of plugins too."""

    label: ClassVar[str] = "extension"
    kind_key: ClassVar[str] = "provider"

    content: bool | None = Field(
        None,
        description="Whether it is given the text of documents and questions. By default its class "
        "decides; the extensions of Lorebind are given none.",
    )


# What is installed is not told of anything before the project's author names it here: an extension
# sees the work of all tenants, and a package may have come along as a dependency of another.
ExtensionDeclaration: TypeAlias = Annotated[
    ExtensionBase,
    Place(
        "extensions",
        ExtensionBase,
        {
            "python": "lorebind_knowledge.extensions.python",
            "prometheus": "lorebind_knowledge.extensions.prometheus",
            "logging": "lorebind_knowledge.extensions.logging",
        },
    ),
]
"""One of the extensions, chosen by `provider`: one of these or a plugin's."""
