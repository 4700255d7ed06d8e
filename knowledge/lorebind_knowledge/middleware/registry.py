"""Make a wrapper from its declaration."""

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
from lorebind_config.reading.make_part import PartEnvironment
from lorebind_knowledge.middleware.base import Wrapper

if TYPE_CHECKING:
    from lorebind_config.declarations.wrappers import WrapperDeclaration
    from lorebind_config.templates.environment import Environment
    from lorebind_knowledge.middleware.base import Wraps


def make_wrapper(declaration: WrapperDeclaration, environment: Environment) -> tuple[str, Wraps]:
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

            made: Wraps = QueryCache(declaration.max_entries, declaration.ttl_seconds)
        case RateLimitWrapper():
            from lorebind_knowledge.middleware.resilience import RateLimit

            made = RateLimit(
                declaration.queries_per_second,
                burst=declaration.burst,
                longest_wait=(
                    declaration.max_wait_seconds if declaration.when_exceeded == "wait" else 0.0
                ),
            )
        case RetryWrapper():
            from lorebind_knowledge.middleware.resilience import StoreRetries

            made = StoreRetries(declaration.retry)
        case TracingWrapper():
            from lorebind_knowledge.middleware.tracing import Tracing

            made = Tracing(record_text=declaration.record_text)
        case IsolationWrapper():
            from lorebind_knowledge.middleware.isolation import Isolation

            made = Isolation()
        case PythonWrapper():
            return repr(declaration.class_path), _of_project(declaration, environment)
    return repr(declaration.type), made


def _of_project(declaration: PythonWrapper, environment: Environment) -> Wraps:
    path = declaration.class_path
    refuse_unset(declaration, environment, f"wrapper {str(path)!r}")
    expected = f"a class with one of the methods {', '.join(_PARTS)}"
    factory = named_factory(
        declaration, environment, expected, Wrapper, methods=_PARTS, failure=PluginError
    )
    own = PartEnvironment(environment)
    with own.saying(UsageError, f"the wrapper {path} cannot be created from this configuration"):
        made = factory(**own.fill(dict(declaration.config)))
    if isinstance(made, Wrapper):
        return made
    wraps = [name for name in _PARTS if callable(getattr(made, name, None))]
    if not wraps:
        raise PluginError(
            f"the wrapper {path} made a {type(made).__name__}, which has none of the methods "
            f"{', '.join(_PARTS)}; derive it from Wrapper"
        )
    return _Completed({name: getattr(made, name) for name in wraps})


_PARTS = ("embedder", "store", "retrieval")


class _Completed(Wrapper):
    """The methods of an object that wraps some parts; the other parts are not wrapped."""

    def __init__(self, methods: dict[str, object]) -> None:
        self.__dict__.update(methods)
