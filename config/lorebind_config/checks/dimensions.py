"""Checks that embedders and vector databases agree about the dimension of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.checks.references import named, problem_at
from lorebind_config.declarations import defaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lorebind_config.declarations.project import ProjectDeclaration
    from lorebind_config.declarations.workflows import WorkflowDeclaration
    from lorebind_config.errors import Problem


def dimensions(
    project: ProjectDeclaration, workflows: Sequence[WorkflowDeclaration]
) -> Iterator[Problem]:
    """Find knowledge bases whose embedder and vector database disagree about the dimension.

    A dimension that the files do not state is measured, and compared, when an index is created.
    """
    vector_dbs = project.vector_dbs
    if not vector_dbs:  # the default database accepts any dimension
        return
    embedders = defaults.embedders(project)
    for kb in [*project.knowledge_bases, *(kb for w in workflows for kb in w.knowledge_bases)]:
        embedder = defaults.meant(embedders, kb.embedder)
        vector_db = defaults.meant(vector_dbs, kb.vector_db)
        made = getattr(embedder, "known_dimension", None)
        kept = getattr(getattr(vector_db, "config", None), "dimension", None)
        if isinstance(made, int) and isinstance(kept, int) and made != kept:
            message = (
                f"{named(kb, kb.id)}: embedder {embedder.id!r} makes vectors of dimension "
                f"{made}, vector database {vector_db.id!r} is declared with {kept}"
            )
            hint = f"write dimension: {made} at {vector_db.config.position('dimension')}"
            yield problem_at(kb, ("vector_db",), message, hint)
