"""What a project has when it declares no embedder, no vector database or no model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.declarations.models import EXTRACTIVE, ModelDeclaration
from lorebind_knowledge.declarations.places import PLACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.declarations.embedders import EmbedderDeclaration
    from lorebind_knowledge.declarations.project import ProjectDeclaration
    from lorebind_knowledge.declarations.vector_dbs import VectorDBDeclaration

T = TypeVar("T", bound=Any)

EMBEDDER, VECTOR_DB = "local", "sqlite"
"""The kinds, and the ids, of those that are not declared."""


def first(declared: Sequence[T]) -> T:
    """What is meant where no id is given: what is called `default`, else the first declared."""
    return next((one for one in declared if one.id == "default"), declared[0])


def meant(declared: Sequence[Any], wanted: object) -> Any:
    """What an id refers to, None where that cannot be told."""
    readable = [one for one in declared if isinstance(one.id, str)]
    if wanted is None:
        return first(declared) if len(readable) == len(declared) else None
    return next((one for one in readable if one.id == wanted), None)


def embedders(project: ProjectDeclaration) -> Sequence[EmbedderDeclaration]:
    """The project's embedders, else the local one."""
    return project.embedders or [PLACES["embedders"].read({"id": EMBEDDER, "provider": EMBEDDER})]


def vector_dbs(project: ProjectDeclaration) -> Sequence[VectorDBDeclaration]:
    """The project's vector databases, else one SQLite file."""
    return project.vector_dbs or [PLACES["vector_dbs"].read({"id": VECTOR_DB, "type": VECTOR_DB})]


def models(project: ProjectDeclaration) -> Sequence[ModelDeclaration]:
    """The project's chat models, else the extractive one, which needs no key."""
    return project.models or [ModelDeclaration(id="default", provider=EXTRACTIVE)]
