"""`checkpointer:` the storage for the threads of workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.declarations.base import OUTSIDE, Declaration, Fault, RefusedError
from lorebind_config.declarations.secrets import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_config.declarations.base import Wants


class CheckpointerDeclaration(Declaration):
    """The storage for threads: a SQLite file, the memory of the process, or PostgreSQL."""

    label: ClassVar[str] = "checkpointer"
    kind_key: ClassVar[str] = "type"
    templated: ClassVar[tuple[str, ...]] = ("path", "dsn")

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_has_its_place`
            "if": {"properties": {"type": {"const": "postgres"}}, "required": ["type"]},
            "then": {"required": ["dsn"], "properties": {"dsn": {"not": {"type": "null"}}}},
            "else": {"properties": {"dsn": {"type": "null"}}},
            "anyOf": [
                {"properties": {"type": {"const": "sqlite"}}},
                {"properties": {"path": False}},
            ],
        }
    )

    type: Literal["sqlite", "memory", "postgres"] = Field(
        "sqlite",
        description="The kind of storage. `memory` loses all threads when the process ends.",
    )
    path: str = Field(
        ".lorebind/threads.db",
        min_length=1,
        description="sqlite: the database file, relative to the project folder. A path outside the "
        "project folder is allowed but needs trust.",
    )
    dsn: Secret | None = Field(
        None, description="postgres: the database, postgresql://user:password@host/database."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "path", "write", OUTSIDE

    @model_validator(mode="after")
    def _has_its_place(self) -> CheckpointerDeclaration:
        if self.type == "postgres" and self.dsn is None:
            raise RefusedError([Fault("missing key 'dsn'", "a postgres checkpointer needs it")])
        if self.type != "postgres" and self.dsn is not None:
            hint = "write type: postgres, or remove it"
            raise RefusedError([Fault(f"{self.type} has no dsn", hint, ("dsn",))])
        if self.type != "sqlite" and "path" in self.model_fields_set:
            hint = "write type: sqlite, or remove it"
            raise RefusedError([Fault(f"{self.type} has no path", hint, ("path",))])
        return self
