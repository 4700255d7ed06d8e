"""Make the source that a declaration describes, with the values of its templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config import templates
from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.declarations.kinds import is_plugins
from lorebind_config.document_sizes import too_large
from lorebind_config.errors import ConfigurationError, LorebindError, SourceError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_config.redaction import without
from lorebind_config.templates import TemplateError
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.sources.base import SourceItem, key_of
from lorebind_knowledge.sources.described import DescribedSource

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Declaration
    from lorebind_config.declarations.sources import SourceBase
    from lorebind_config.templates import Environment, Reference
    from lorebind_knowledge.sources.base import Content, Source

    AnyDeclaration = TypeVar("AnyDeclaration", bound=Declaration)


class SourceEnvironment(PartEnvironment):
    """The project's environment for one source."""

    def __init__(
        self, environment: Environment, key: str, workflow: Mapping[str, Any] | None
    ) -> None:
        """`workflow` is the value of that name in templates; None outside of a workflow."""
        of_run: dict[str, Any] = {}
        if workflow is not None:
            of_run = {"workflow": workflow, "input": workflow.get("input", {})}
        super().__init__(environment, of_run)
        self.key = key
        self._confided = {**environment.traced_scopes(), **of_run}

    def value(self, reference: Reference) -> Any:
        """Return the value of a template; a `TracedText` text includes how it may be shown.

        Raises:
            TemplateError: the value is not defined.
        """
        value = templates.look_up(reference, self._confided)
        self.secrets |= templates.values_in(value)
        return value

    def filled(self, written: AnyDeclaration) -> tuple[AnyDeclaration, AnyDeclaration]:
        """Return a declaration with resolved templates: with real values, and as it may be shown.

        Raises:
            SourceError: a template has no value, or a value of the wrong type.
        """
        fields = _filled(written, self._confided)
        self.secrets |= templates.values_in(fields)
        real = written.model_copy(update=templates.plain(fields))
        return real, written.model_copy(update=templates.for_display(fields))


def _filled(written: Declaration, scopes: Mapping[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for field in written.templated:
        before = getattr(written, field)
        try:
            after = templates.fill(before, scopes)
        except TemplateError as error:
            raise SourceError(f"{field}: {error}") from error
        pairs = zip(before, after, strict=True) if isinstance(before, list) else [(before, after)]
        for text, value in pairs:
            if isinstance(text, str) and not isinstance(value, str):
                kind = type(value).__name__
                raise SourceError(f"{field}: {text}: expected text, got a value of type {kind}")
            if text and value == "":
                raise SourceError(f"{field}: {text} is empty; expected text")
        changes[field] = after
    return changes


def make_source(
    declaration: SourceBase,
    environment: Environment,
    *,
    workflow: Mapping[str, Any] | None = None,
) -> Source:
    """Return the source that a declaration describes, without opening or fetching anything.

    Never raises. If the source cannot be made, for example because a template has no value or an
    extra is not installed, it fails when it is listed, like an unreachable source. It still has the
    same key, so documents that were ingested from it stay in the index.

    Args:
        declaration: the declaration.
        environment: the project's environment, with the scopes of templates and the project folder.
        workflow: the value of `workflow` in templates, with `input` and `vars`; None outside of a
            workflow.
    """
    source_environment = SourceEnvironment(environment, key_of(declaration), workflow)
    try:
        source = make_part("sources", declaration, source_environment, ("items",), SourceError)
    except LorebindError as error:
        source = _Unmade(source_environment.key, error)
    try:
        refuse_unset(declaration, environment)
    except ConfigurationError as error:
        source = _Unmade(source.key, error)
    redacting = RedactingSource(source, declaration, source_environment)
    return DescribedSource(redacting, declaration.metadata) if declaration.metadata else redacting


class _Unmade:
    """A source that could not be made; listing it raises the error."""

    def __init__(self, key: str, error: LorebindError) -> None:
        self.key = key
        self._error = error

    def items(self) -> Iterable[SourceItem]:
        raise SourceError(str(self._error)) from self._error


class RedactingSource:
    """A wrapper that replaces the values of variables with their templates.

    All exceptions of the wrapped source become `SourceError`, and larger documents than declared
    are refused.
    """

    def __init__(
        self, inner: Source, declaration: SourceBase, environment: SourceEnvironment
    ) -> None:
        """`environment` records the values that the source looks up, now and later."""
        self._is_plugins = is_plugins(declaration)
        self.key = environment.key if self._is_plugins else inner.key
        self._names = not declaration.declares_uris
        self._limit = declaration.size_limit
        self._inner, self._environment = inner, environment
        self._restores = hasattr(inner, "restore")
        self.notices: list[str] = []
        self._last: tuple[Any, bool] = (None, False)
        """The function that reads the last listed item, and whether it is async."""

    def items(self) -> Iterator[SourceItem]:
        with self._redacting("cannot be listed"):
            for item in self._inner.items():
                yield self._wrapped(item)
        self.notices = [self._redact(notice) for notice in getattr(self._inner, "notices", ())]

    def restore(self, token: bytes) -> SourceItem:
        """Return a listed item; see `SourceItem.token`."""
        inner: Any = self._inner
        with self._redacting("cannot be read"):
            return self._wrapped(inner.restore(token))

    def _wrapped(self, item: SourceItem) -> SourceItem:
        uri = self._redact(item.uri) if self._names else item.uri
        read: Callable[[str], Any] = item.read
        function = getattr(read, "func", read)  # that of a partial, which most items share
        if function != self._last[0]:
            self._last = function, iscoroutinefunction(read)
        if self._is_plugins or self._last[1]:
            read = self._reading(read, uri)
        else:
            read = partial(self._read, read, uri)
        return SourceItem(
            uri,
            read,
            item.skipped,
            item.setting,
            item.unlisted,
            item.peek,
            item.version,
            item.token if self._restores else b"",
        )

    def _read(self, read: Callable[[str], Any], uri: str, version: str) -> Content | None:
        with self._redacting(f"{uri}: cannot be read"):
            return self._redacted(read(version), uri)

    def _reading(self, read: Callable[[str], Any], uri: str) -> Callable[[str], Any]:
        async def read_in_loop(version: str) -> Content | None:
            with self._redacting(f"{uri}: cannot be read"):
                return self._redacted(await call(read, version), uri)

        return read_in_loop

    @contextmanager
    def _redacting(self, what: str) -> Iterator[None]:
        try:
            with self._environment.redact_errors(SourceError, what):
                yield
        except SourceError as error:
            if not self._environment.secrets:
                raise
            # Tracebacks also show the cause, which is not redacted.
            raise SourceError(self._redact(str(error))) from None

    def _redacted(self, content: Content | None, uri: str) -> Content | None:
        if content is None:
            return None
        limit = self._limit.of(uri, content.media_type)
        if len(content.data) > limit.size:
            raise too_large(uri, limit)
        if not content.metadata:
            return content
        return replace(content, metadata=self._redact_values(content.metadata))

    def _redact(self, text: str) -> str:
        return without(text, self._environment.secrets)

    def _redact_values(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, Mapping):
            return {
                self._redact_values(key): self._redact_values(item) for key, item in value.items()
            }
        return [self._redact_values(item) for item in value] if isinstance(value, list) else value
