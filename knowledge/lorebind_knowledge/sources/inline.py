"""The source `inline`: documents written in the YAML itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Fault, Id, RefusedError, Settings
from lorebind_config.declarations.sources import SourceBase
from lorebind_config.declarations.values import MetadataMap
from lorebind_knowledge.sources.base import Content, SourceItem, media_type_of_text

if TYPE_CHECKING:
    from lorebind_knowledge.sources.make import SourceEnvironment


class InlineDocument(Settings):
    """A document written in the YAML."""

    label: ClassVar[str] = "inline document"

    id: Id = Field(description="Its name, with an extension unless it is plain text.")
    text: str = Field(min_length=1, description="Its text.")
    metadata: MetadataMap = Field(
        default_factory=dict, description="Added to the metadata of its passages."
    )


class InlineSource(SourceBase):
    """Documents written in the YAML itself."""

    declares_uris: ClassVar[bool] = True

    type: Literal["inline"] = Field(description="Documents written here.")
    documents: list[InlineDocument] = Field(min_length=1, description="The documents.")

    @model_validator(mode="after")
    def _one_of_each_id(self) -> InlineSource:
        ids = [document.id for document in self.documents]
        faults = [
            Fault(f"inline document id {name!r} is used twice", path=("documents", index, "id"))
            for index, name in enumerate(ids)
            if name in ids[:index]
        ]
        if faults:
            raise RefusedError(faults)
        return self


Declaration = InlineSource


def make(declaration: InlineSource, environment: SourceEnvironment) -> InlineDocuments:
    return InlineDocuments(declaration.type, declaration.documents)


@dataclass(frozen=True)
class InlineDocuments:
    """A source of documents `inline:ID`, in the format of their id's extension."""

    key: str
    documents: Sequence[InlineDocument]

    def items(self) -> Iterator[SourceItem]:
        for document in self.documents:
            yield SourceItem(f"inline:{document.id}", partial(self._read, document))

    def _read(self, document: InlineDocument, version: str) -> Content:
        data = document.text.encode("utf-8", "replace")
        return Content(data, media_type_of_text(document.id), metadata=document.metadata)
