"""`catalog:` the database for the documents, texts and words of a vector database."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.declarations.base import OUTSIDE, Declaration, Fault, RefusedError
from lorebind_config.declarations.secrets import Secret
from lorebind_config.declarations.values import SqlName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_config.declarations.base import Wants


class CatalogDeclaration(Declaration):
    """The SQLite file or PostgreSQL database of a catalog: documents, texts, words and cached
    embeddings."""

    templated: ClassVar[tuple[str, ...]] = ("path", "dsn")

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_one_place`
            "oneOf": [{"required": ["path"]}, {"required": ["dsn"]}],
        }
    )

    path: str | None = Field(
        None, min_length=1, description="The SQLite file, relative to the project folder."
    )
    dsn: Secret | None = Field(
        None, description="A PostgreSQL database: postgresql://user:password@host/database."
    )
    table_schema: SqlName | None = Field(
        None,
        alias="schema",
        description="dsn: the PostgreSQL schema of the catalog's tables. By default `lorebind_` "
        "followed by the id of the vector database.",
    )
    ensure_schema: bool = Field(
        True, description="dsn: whether to create the schema and the tables if they are missing."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "path", "write", OUTSIDE

    @model_validator(mode="after")
    def _one_place(self) -> CatalogDeclaration:
        if (self.path is None) == (self.dsn is None):
            raise RefusedError(
                [Fault("the catalog has no location", "write either 'path' or 'dsn'")]
                if self.path is None
                else [Fault("path and dsn are both given", "keep one of them", ("dsn",))]
            )
        if self.path is not None and self.table_schema is not None:
            hint = "remove it, since it applies to dsn only"
            raise RefusedError([Fault("a SQLite file has no schemas", hint, ("schema",))])
        return self


def refuse_catalog_in_memory(catalog: CatalogDeclaration | None) -> None:
    """Refuse a catalog of a database in memory: the catalog would outlive its vectors.

    Raises:
        RefusedError: a catalog is declared.
    """
    if catalog is not None:
        hint = "remove it; the catalog is kept in memory too"
        message = "a catalog would outlive the vectors, which are lost when the process ends"
        raise RefusedError([Fault(message, hint, ("catalog",))])
