"""Make the wrappers of a project, and apply them to its parts in the order of their declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.checks.named_code import named_factory
from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.declarations.wrappers import (
    CacheWrapper,
    IsolationWrapper,
    PythonWrapper,
    RateLimitWrapper,
    RetryWrapper,
    TracingWrapper,
)
from lorebind_config.errors import PluginError, UsageError
from lorebind_config.namespace import tenant
from lorebind_config.reading.make_part import PartEnvironment
from lorebind_knowledge.embedders.base import Embedder
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
from lorebind_knowledge.events import Tracer
from lorebind_knowledge.knowledge_base import ExistingKnowledgeBase, IndexedKnowledgeBase
from lorebind_knowledge.middleware import Wrapper
from lorebind_knowledge.plumbing.bridge import only_errors
from lorebind_knowledge.plumbing.lanes import threads_of
from lorebind_knowledge.stores.base import ApproximateStore, VectorStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from lorebind_config.declarations.wrappers import WrapperDeclaration
    from lorebind_config.templates import Environment
    from lorebind_knowledge.middleware import Retrieval, Retrieve
    from lorebind_knowledge.records import QueryResult

_PARTS = ("embedder", "sparse_embedder", "store", "retrieval")


def make_wrapper(declaration: WrapperDeclaration, environment: Environment) -> tuple[str, Wrapper]:
    """Make the declared wrapper, and return it with its name for messages.

    Raises:
        UsageError: a factory cannot be imported, or does not accept the declared configuration.
        MissingVariableError: a variable of its configuration is not set.
        PluginError: the object that a factory made wraps nothing.
        MissingDependencyError: tracing is declared without OpenTelemetry.
    """
    match declaration:
        case CacheWrapper():
            from lorebind_knowledge.middleware.cache import QueryCache

            wrapper: Wrapper = QueryCache(declaration.max_entries, declaration.ttl_seconds)
        case RateLimitWrapper():
            from lorebind_knowledge.middleware.resilience import RateLimit

            wrapper = RateLimit(
                declaration.queries_per_second,
                burst=declaration.burst,
                longest_wait=(
                    declaration.max_wait_seconds if declaration.when_exceeded == "wait" else 0.0
                ),
            )
        case RetryWrapper():
            from lorebind_knowledge.middleware.resilience import StoreRetries

            wrapper = StoreRetries(declaration.retry)
        case TracingWrapper():
            from lorebind_knowledge.middleware.tracing import Tracing

            wrapper = Tracing(record_text=declaration.record_text)
        case IsolationWrapper():
            from lorebind_knowledge.middleware.isolation import Isolation

            wrapper = Isolation()
        case PythonWrapper():
            return repr(declaration.class_path), _of_project(declaration, environment)
    return repr(declaration.type), wrapper


def _of_project(declaration: PythonWrapper, environment: Environment) -> Wrapper:
    path = declaration.class_path
    refuse_unset(declaration, environment, f"wrapper {str(path)!r}")
    expected = f"a class with one of the methods {', '.join(_PARTS)}"
    factory = named_factory(
        declaration, environment, expected, Wrapper, methods=_PARTS, failure=PluginError
    )
    secrets = PartEnvironment(environment)
    refused = f"the wrapper {path} cannot be created from this configuration"
    with secrets.redact_errors(UsageError, refused):
        instance = factory(**secrets.fill(dict(declaration.config)))
    if isinstance(instance, Wrapper):
        return instance
    methods = {
        name: getattr(instance, name) for name in _PARTS if callable(getattr(instance, name, None))
    }
    if not methods:
        raise PluginError(
            f"the wrapper {path} made a {type(instance).__name__}, which has none of the methods "
            f"{', '.join(_PARTS)}; derive it from Wrapper"
        )
    wrapper = Wrapper()
    vars(wrapper).update(methods)  # the other parts are not wrapped
    return wrapper


def _search(retrieval: Retrieval) -> Awaitable[QueryResult]:
    """Start the search that fits the knowledge bases."""
    from lorebind_knowledge.retrieval.existing import search_existing
    from lorebind_knowledge.retrieval.search import search  # with NumPy, as above

    ours = [kb for kb in retrieval.kbs if isinstance(kb, IndexedKnowledgeBase)]
    if ours:
        return search(ours, retrieval.question, retrieval.settings)
    (theirs,) = (kb for kb in retrieval.kbs if isinstance(kb, ExistingKnowledgeBase))
    return search_existing(theirs, retrieval.question, retrieval.settings)


class Middleware:
    """Wraps each part of a project. The first declared wrapper is the outermost: it runs first."""

    def __init__(self, declared: Sequence[WrapperDeclaration], environment: Environment) -> None:
        """
        Raises:
            UsageError, PluginError, MissingDependencyError: a wrapper cannot be made.
        """
        self._wrappers: list[tuple[str, Wrapper]] = [
            make_wrapper(declaration, environment) for declaration in declared
        ]
        retrieve: Retrieve = _search
        for _, wrapper in reversed(self._wrappers):
            retrieve = wrapper.retrieval(retrieve)
        self._retrieve = retrieve

    @property
    def tracers(self) -> list[Tracer]:
        """The wrappers that make spans."""
        # Not by its class, whose module needs OpenTelemetry's API.
        return [wrapper for _, wrapper in self._wrappers if isinstance(wrapper, Tracer)]

    async def retrieve(self, retrieval: Retrieval) -> QueryResult:
        """Run a search through all wrappers, as its tenant."""
        threads = threads_of(kb.threads for kb in retrieval.kbs)
        with only_errors(), tenant(retrieval.tenant), threads.lane("read"):
            return await self._retrieve(retrieval)

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

    def sparse_embedder(self, inner: SparseEmbedder) -> SparseEmbedder:
        """Return the sparse embedder within all wrappers; raise errors as `embedder`."""
        for name, wrapper in reversed(self._wrappers):
            inner = wrapper.sparse_embedder(inner)
            if not isinstance(inner, SparseEmbedder):
                kind = type(inner).__name__
                raise PluginError(f"wrapper {name}: {kind} is not a SparseEmbedder")
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
