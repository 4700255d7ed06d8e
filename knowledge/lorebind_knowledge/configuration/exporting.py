"""`export`: the resources of a project as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.declarations.resources import SECTIONS
from lorebind_knowledge.namespace import PROJECT_SCOPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.configuration.loaded import LoadedProject
    from lorebind_knowledge.declarations.base import Declaration


def export_resources(
    loaded: LoadedProject, kb_id: str | None = None, workflow: str | None = None
) -> dict[str, Any]:
    """The resources of a project as plain data, with templates as they were written.

    Args:
        loaded: the project.
        kb_id: only this knowledge base, with the embedder and vector database that it names; None
            means all. Defaults that are not written down are left out.
        workflow: the workflow that sees it; where that one declares it, the data says so. Without
            an id, all that the workflow declares.

    Raises:
        NotFoundError: no such knowledge base or workflow.
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
