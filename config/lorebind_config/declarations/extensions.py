"""`extensions:` code that receives the events of all ingests and searches."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.places import Place


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
    Place("extensions", ExtensionBase),
]
"""An extension, selected by `provider`: built in or from a plugin."""
