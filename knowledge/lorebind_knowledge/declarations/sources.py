"""`sources:` where the documents of a knowledge base come from."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import ConfigDict, Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.places import Place

MEGABYTE = 1024 * 1024
DEFAULT_MAX_BYTES = 4 * MEGABYTE


class SourceBase(Declaration):
    """What all sources declare, those of plugins too."""

    label: ClassVar[str] = "source"
    kind_key: ClassVar[str] = "type"
    declares_uris: ClassVar[bool] = False
    """Whether documents' uris consist of declared text alone, and so hold no secret."""

    max_bytes: int = Field(
        DEFAULT_MAX_BYTES,
        ge=1,
        le=1024 * MEGABYTE,
        description="A larger document fails. By default 4 MiB.",
    )

    @property
    def names(self) -> list[str] | None:
        """The settings that tell this source from others, in its key; None means all of them."""
        return None


def one_of(*alternatives: dict[str, Any]) -> ConfigDict:
    """The configuration of a declaration of which JSON Schema demands one of these."""
    return ConfigDict(json_schema_extra={"anyOf": list(alternatives)})


SourceDeclaration: TypeAlias = Annotated[
    SourceBase,
    Place(
        "sources",
        SourceBase,
        {
            "markdown_glob": "lorebind_knowledge.sources.markdown_glob",
            "file_glob": "lorebind_knowledge.sources.file_glob",
            "url": "lorebind_knowledge.sources.url",
            "media_transcript": "lorebind_knowledge.sources.transcripts",
            "cloud_storage": "lorebind_knowledge.sources.cloud",
            "inline": "lorebind_knowledge.sources.inline",
            "langchain": "lorebind_knowledge.sources.langchain",
        },
    ),
]
"""One of the sources, chosen by `type`: one of these or a plugin's."""
