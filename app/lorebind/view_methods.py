"""Views of a project: for one tenant, or with additional knowledge bases."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.errors import UsageError
from lorebind_config.namespace import checked_tenant
from lorebind_config.reading.at_run_time import read_knowledge_base, with_knowledge_bases

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_bindings import Workflows
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.service import KnowledgeService


class ViewMethods:
    """The methods of `Project` that return views of it.

    A view shares all open resources with the project, so closing one also closes the other.
    """

    config: LoadedProject
    knowledge: KnowledgeService
    _workflows: Workflows

    def with_knowledge_bases(
        self, declared: Sequence[Mapping[str, Any] | KnowledgeBaseDeclaration]
    ) -> Self:
        """Return the same project with additional knowledge bases that no file declares.

        Args:
            declared: the YAML content of each knowledge base as a mapping, or a declaration, which
                is used without validation.

        Raises:
            ConfigurationError: a knowledge base is not valid, or its id is already used. The error
                lists all problems of the first such knowledge base; the `file` of a problem is a
                JSON pointer into the given mapping.
        """
        config = self.config
        for one in declared:
            if not isinstance(one, KnowledgeBaseDeclaration):
                one = read_knowledge_base(config, one)
            config = with_knowledge_bases(config, [one])
        return self._over(config)

    def for_tenant(self, name: str) -> Self:
        """Return the same project, bound to a tenant for good.

        Everything that the view does belongs to this tenant, and so does everything that it makes:
        retrievers, tools, prompts, middleware, vector stores, streams and graphs. This holds in all
        threads and tasks, and inside of a `with tenant(...)` block of another tenant. A view costs
        next to nothing, so you can make one for each request.

        Args:
            name: the name of the tenant.

        Raises:
            UsageError: the name is empty, or this is a view of another tenant.
        """
        bound = self.config.bound_tenant or checked_tenant(name)
        if name != bound:
            raise UsageError(
                f"this view is bound to tenant {bound!r}; call for_tenant on the project itself"
            )
        return self._over(replace(self.config, bound_tenant=name))

    def _over(self, config: LoadedProject) -> Self:
        """Return the project with another configuration; it shares all open resources."""
        view = copy(self)
        view.config = config
        view.knowledge = self.knowledge.over(config)
        view._workflows = self._workflows.over(config, view.knowledge)
        return view
