"""Read which knowledge bases tenants created over the API, for commands next to a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind.server.state.knowledge_bases import StoredKnowledgeBases
from lorebind.server.state.tables import open_state
from lorebind_config.errors import NotFoundError

if TYPE_CHECKING:
    from lorebind_config.reading.loaded import LoadedProject


def made_over_api(loaded: LoadedProject) -> dict[tuple[str, str], str]:
    """Map tenant and id of each such knowledge base to the id of its vector database.

    The database id is empty if the database holds no index of Lorebind. If no server has run, the
    mapping is empty, and no file is created to find that out.

    Raises:
        StoreError: the state of the server cannot be read.
    """
    database = open_state(loaded.project.server.state, loaded.environment)
    try:
        made = StoredKnowledgeBases(database, loaded.project.name).all()
    finally:
        database.close()
    return {(one.tenant, one.id): _vector_db(loaded, one.declared.get("vector_db")) for one in made}


def _vector_db(loaded: LoadedProject, named: str | None) -> str:
    try:
        found = loaded.vector_db(named)
    except NotFoundError:
        return ""
    return "" if found.is_existing else found.id
