"""Each vector database has a catalog of its own: two in one place would take each other's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.configuration.references import problem_at
from lorebind_knowledge.declarations.catalogs import CatalogDeclaration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.declarations.project import ProjectDeclaration
    from lorebind_knowledge.errors import Problem


def catalogs(project: ProjectDeclaration) -> Iterator[Problem]:
    """Catalogs that are declared to be where another one is, as far as files can tell."""
    taken: dict[object, str] = {}
    for one in project.vector_dbs:
        path = _path(getattr(one, "config", None))
        if getattr(one, "type", None) == "sqlite" and isinstance(path, str):
            taken[path, None] = one.id
    for one in project.vector_dbs:
        catalog = getattr(one, "catalog", None)
        if not isinstance(catalog, CatalogDeclaration):
            continue
        # Without a name, the schema in PostgreSQL has the database's id in its own.
        named = isinstance(catalog.dsn, str) and isinstance(catalog.table_schema, str)
        place = (catalog.dsn, catalog.table_schema) if named else (_path(catalog), None)
        if not isinstance(place[0], str):
            continue
        if place in taken:
            message = f"vector database {taken[place]!r} keeps its catalog there already"
            field = "schema" if named else "path"
            yield problem_at(one, ("catalog", field), message, "name another place")
        taken.setdefault(place, one.id)


def _path(of: object) -> object:
    return getattr(of, "path", None)
