"""`export`: returns the resources of a project as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_config.declarations.resources import SECTIONS
from lorebind_config.namespace import PROJECT_SCOPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.declarations.base import Declaration
    from lorebind_config.reading.loaded import LoadedProject


def export_resources(
    loaded: LoadedProject, kb_id: str | None = None, workflow: str | None = None
) -> dict[str, Any]:
    """Return the resources of a project as plain data, with templates as they were written.

    Args:
        loaded: The project.
        kb_id: Id of a knowledge base to export alone, with the embedder and vector database that
            it uses; None exports everything. Defaults that are not declared are omitted.
        workflow: Id of the workflow that uses the knowledge base. If the workflow declares the
            knowledge base itself, the data has the key `workflow`. Without a `kb_id`, everything
            that the workflow declares is exported.

    Returns:
        Lists of resources by the keys `embedders`, `vector_dbs` and `knowledge_bases`. Empty lists
        are omitted.

    Raises:
        NotFoundError: The knowledge base or the workflow does not exist.
    """
    project = loaded.project
    declared: dict[str, Sequence[Declaration]] = {
        section: getattr(project, section) for section in SECTIONS
    }
    owner = workflow
    if kb_id is not None or workflow is not None:
        if kb_id is not None:
            kb, scope = loaded.knowledge_base(kb_id, workflow)
            owner = None if scope == PROJECT_SCOPE else workflow
            kbs = [kb]
        else:
            kbs = loaded.workflow(str(workflow)).knowledge_bases
        embedders = {loaded.embedder(kb.embedder).id for kb in kbs}
        vector_dbs = {loaded.vector_db(kb.vector_db).id for kb in kbs}
        declared = {
            "embedders": [one for one in project.embedders if one.id in embedders],
            "vector_dbs": [one for one in project.vector_dbs if one.id in vector_dbs],
            "knowledge_bases": kbs,
        }
    written = {
        section: [one.written() for one in some] for section, some in declared.items() if some
    }
    return written if owner is None else {"workflow": owner, **written}
