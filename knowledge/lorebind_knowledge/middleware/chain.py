"""Apply the wrappers of a project to its parts, in the order of their declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import PluginError, UsageError
from lorebind_config.namespace import tenant
from lorebind_knowledge.embedders.base import Embedder
from lorebind_knowledge.knowledge_base import ExistingKnowledgeBase, KnowledgeBase
from lorebind_knowledge.middleware.registry import make_wrapper
from lorebind_knowledge.plumbing.bridge import only_errors
from lorebind_knowledge.plumbing.lanes import threads_of
from lorebind_knowledge.stores.base import ApproximateStore, VectorStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from lorebind_config.declarations.wrappers import WrapperDeclaration
    from lorebind_config.templates.environment import Environment
    from lorebind_knowledge.middleware.base import Retrieval, Retrieve, Wraps
    from lorebind_knowledge.records import QueryResult


def _search(asked: Retrieval) -> Awaitable[QueryResult]:
    """Start the search that fits the knowledge bases."""
    from lorebind_knowledge.retrieval.existing import search_existing
    from lorebind_knowledge.retrieval.search import search, search_several

    ours = [kb for kb in asked.kbs if isinstance(kb, KnowledgeBase)]
    theirs = [kb for kb in asked.kbs if isinstance(kb, ExistingKnowledgeBase)]
    if len(asked.kbs) == 1:
        if theirs:
            return search_existing(theirs[0], asked.question, asked.settings)
        return search(ours[0], asked.question, asked.settings)
    if theirs:
        raise UsageError(
            f"knowledge base {theirs[0].id!r} is filled by others, and its scores cannot be "
            "compared with those of other knowledge bases; search them one by one"
        )
    return search_several(ours, asked.question, asked.settings)


class Middleware:
    """Wraps each part of a project. The first declared wrapper is the outermost: it runs first."""

    def __init__(self, declared: Sequence[WrapperDeclaration], environment: Environment) -> None:
        """
        Raises:
            UsageError, PluginError, MissingDependencyError: a wrapper cannot be made.
        """
        self._wrappers: list[tuple[str, Wraps]] = [
            make_wrapper(one, environment) for one in declared
        ]
        retrieve: Retrieve = _search
        for _, wrapper in reversed(self._wrappers):
            retrieve = wrapper.retrieval(retrieve)
        self._retrieve = retrieve

    async def retrieve(self, asked: Retrieval) -> QueryResult:
        """Run a search through all wrappers, as its tenant."""
        threads = threads_of(kb.threads for kb in asked.kbs)
        with only_errors(), tenant(asked.tenant), threads.lane("read"):
            return await self._retrieve(asked)

    def embedder(self, inner: Embedder) -> Embedder:
        """Return the embedder within all wrappers.

        Raises:
            PluginError: a wrapper did not return an embedder.
        """
        for name, wrapper in reversed(self._wrappers):
            inner = wrapper.embedder(inner)
            if not isinstance(inner, Embedder):
                raise PluginError(f"wrapper {name}: {type(inner).__name__} is not an Embedder")
        return inner

    def store(self, inner: VectorStore) -> VectorStore:
        """Return the store within all wrappers; it supports everything that the store supports.

        Raises:
            PluginError: a wrapper did not return a store, or returned one that supports less.
        """
        for name, wrapper in reversed(self._wrappers):
            wrapped = wrapper.store(inner)
            if not isinstance(wrapped, VectorStore):
                raise PluginError(f"wrapper {name}: {type(wrapped).__name__} is not a VectorStore")
            if isinstance(inner, ApproximateStore) and not isinstance(wrapped, ApproximateStore):
                raise PluginError(
                    f"wrapper {name}: {type(wrapped).__name__} is not an ApproximateStore, but the "
                    "store that it wraps is; derive it from StoreWrapper"
                )
            inner = wrapped
        return inner
