"""Defaults for projects that declare no embedder, vector database or model."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config.declarations.models import EXTRACTIVE, ModelDeclaration
from lorebind_config.declarations.places import PLACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.declarations.embedders import EmbedderDeclaration
    from lorebind_config.declarations.project import ProjectDeclaration
    from lorebind_config.declarations.vector_dbs import VectorDBDeclaration
    from lorebind_config.plugins import Group

T = TypeVar("T", bound=Any)

EMBEDDER, VECTOR_DB = "local", "sqlite"
"""The kinds of the default embedder and vector database, which are also their ids."""


def first(declared: Sequence[T]) -> T:
    """Return the default declaration: the one with the id `default`, or else the first one."""
    return next((one for one in declared if one.id == "default"), declared[0])


def meant(declared: Sequence[Any], wanted: object) -> Any:
    """Return the declaration with an id, or the default for None; None if it is not known."""
    readable = [one for one in declared if isinstance(one.id, str)]
    if wanted is None:
        return first(declared) if len(readable) == len(declared) else None
    return next((one for one in readable if one.id == wanted), None)


def embedders(project: ProjectDeclaration) -> Sequence[EmbedderDeclaration]:
    """Return the project's embedders, or else the local one."""
    return project.embedders or [_read("embedders", "provider", EMBEDDER)]


def vector_dbs(project: ProjectDeclaration) -> Sequence[VectorDBDeclaration]:
    """Return the project's vector databases, or else a single SQLite file."""
    return project.vector_dbs or [_read("vector_dbs", "type", VECTOR_DB)]


def models(project: ProjectDeclaration) -> Sequence[ModelDeclaration]:
    """Return the project's chat models, or else the extractive one, which needs no API key."""
    return project.models or [ModelDeclaration(id="default", provider=EXTRACTIVE)]


@cache  # every search asks several times, and reading one takes longer than the rest of the lookup
def _read(place: Group, kind_key: str, kind: str) -> Any:
    return PLACES[place].read({"id": kind, kind_key: kind})
