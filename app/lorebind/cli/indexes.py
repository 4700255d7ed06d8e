"""The statistics of indexes for `list` and `get`, even if some indexes cannot be read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind.cli.opening import load_config
from lorebind_config.errors import LorebindError

if TYPE_CHECKING:
    from lorebind.cli.any_project import AnyProject
    from lorebind.declaration_methods import KnowledgeBaseInfo
    from lorebind.project import Project
    from lorebind_knowledge.documents.listing import KnowledgeStats


def project_to_read(path: str) -> Project:
    """Open a project to read catalogs only.

    Reading sends no events and calls no wrapper, so extensions and wrappers are not created.
    """
    from lorebind.project import Project  # as in `opening.opened`

    loaded = load_config(path)
    alone = loaded.project.model_copy(update={"extensions": [], "wrappers": []})
    return Project(replace(loaded, project=alone))


class Indexes:
    """The statistics of a project's indexes, or the reason why an index cannot be read."""

    def __init__(self, project: AnyProject) -> None:
        self._project = project
        self._errors: dict[str, str] = {}
        """Errors by vector database, so that a database that does not answer is tried only once."""

    def stats(self, kb: KnowledgeBaseInfo) -> tuple[KnowledgeStats | None, str | None]:
        """Return the statistics or else an error; neither for a knowledge base that others fill."""
        if kb.filled_by_others:
            return None, None
        if kb.vector_db not in self._errors:
            try:
                opened = self._project.knowledge_base(kb.id, workflow=kb.workflow)
                return opened.stats(), None
            except LorebindError as error:
                self._errors[kb.vector_db] = str(error)
        return None, self._errors[kb.vector_db]
