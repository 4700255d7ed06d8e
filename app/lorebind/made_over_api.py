"""The knowledge bases that tenants made over the API of a server, for what runs beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind.server.state.knowledge_bases import MadeKnowledgeBases
from lorebind.server.state.tables import open_state
from lorebind_knowledge.errors import NotFoundError

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import LoadedProject


def made_over_api(loaded: LoadedProject) -> dict[tuple[str, str], str]:
    """The vector database of each, by tenant and id; empty if it holds no index of ours.

    Where no server has run there are none, and nothing is made to find that out.

    Raises:
        StoreError: the state of the server cannot be read.
    """
    database = open_state(loaded.project.server.state, loaded.environment)
    try:
        made = MadeKnowledgeBases(database, loaded.project.name).all()
    finally:
        database.close()
    return {(one.tenant, one.id): _vector_db(loaded, one.declared.get("vector_db")) for one in made}


def _vector_db(loaded: LoadedProject, named: str | None) -> str:
    try:
        found = loaded.vector_db(named)
    except NotFoundError:
        return ""
    return "" if found.is_existing else found.id
