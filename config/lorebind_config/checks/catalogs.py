"""Checks that no two vector databases share a catalog, since they would mix up their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.checks.references import problem_at
from lorebind_config.declarations.catalogs import CatalogDeclaration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_config.declarations.project import ProjectDeclaration
    from lorebind_config.errors import Problem


def catalogs(project: ProjectDeclaration) -> Iterator[Problem]:
    """Find catalogs declared at the location of another one, as far as the files show it."""
    taken: dict[object, str] = {}
    for one in project.vector_dbs:
        path = _path(getattr(one, "config", None))
        if getattr(one, "type", None) == "sqlite" and isinstance(path, str):
            taken[path, None] = one.id
    for one in project.vector_dbs:
        catalog = getattr(one, "catalog", None)
        if not isinstance(catalog, CatalogDeclaration):
            continue
        # The default schema in PostgreSQL contains the database's id, so it cannot clash.
        named = isinstance(catalog.dsn, str) and isinstance(catalog.table_schema, str)
        place = (catalog.dsn, catalog.table_schema) if named else (_path(catalog), None)
        if not isinstance(place[0], str):
            continue
        if place in taken:
            message = f"vector database {taken[place]!r} already keeps its catalog there"
            field = "schema" if named else "path"
            yield problem_at(one, ("catalog", field), message, "choose another location")
        taken.setdefault(place, one.id)


def _path(of: object) -> object:
    return getattr(of, "path", None)
