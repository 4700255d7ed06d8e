"""`catalog:` where the documents, texts and words behind a vector database are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import ConfigDict, Field, model_validator

from lorebind_knowledge.declarations.base import Declaration, Fault, RefusedError
from lorebind_knowledge.declarations.secrets import Secret
from lorebind_knowledge.declarations.values import OUTSIDE, SqlName, leaves_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.declarations.base import Wants


class CatalogDeclaration(Declaration):
    """A SQLite file or PostgreSQL, for the catalog: documents, texts, words, cached embeddings."""

    templated: ClassVar[tuple[str, ...]] = ("path", "dsn")

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_one_place`
            "oneOf": [{"required": ["path"]}, {"required": ["dsn"]}],
        }
    )

    path: str | None = Field(
        None, min_length=1, description="A SQLite file, relative to the project folder."
    )
    dsn: Secret | None = Field(
        None, description="PostgreSQL: postgresql://user:password@host/database."
    )
    table_schema: SqlName | None = Field(
        None,
        alias="schema",
        description="dsn: the schema of its tables. By default `lorebind_` and the id of the "
        "vector database.",
    )
    ensure_schema: bool = Field(
        True, description="dsn: make the schema and the tables if they are missing."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.path is not None and leaves_project(self.path):
            yield "path", "write", OUTSIDE

    @model_validator(mode="after")
    def _one_place(self) -> CatalogDeclaration:
        if (self.path is None) == (self.dsn is None):
            raise RefusedError(
                [Fault("the catalog names no place", "write either 'path' or 'dsn'")]
                if self.path is None
                else [Fault("path and dsn are both given", "keep one of them", ("dsn",))]
            )
        if self.path is not None and self.table_schema is not None:
            hint = "leave it out, it belongs to dsn"
            raise RefusedError([Fault("a SQLite file has no schemas", hint, ("schema",))])
        return self


def refuse_catalog_in_memory(catalog: CatalogDeclaration | None) -> None:
    """Refuse a catalog that stays when the vectors that it describes are gone.

    Raises:
        RefusedError: there is one.
    """
    if catalog is not None:
        hint = "leave the catalog out, it is kept in memory too"
        message = "the vectors are gone when the process ends, and a catalog would not be"
        raise RefusedError([Fault(message, hint, ("catalog",))])
