"""A source whose messages, names and metadata hold no value that a variable gave to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import call
from lorebind_knowledge.declarations.places import is_plugins
from lorebind_knowledge.errors import LorebindError, SourceError
from lorebind_knowledge.redaction import without
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.limits import too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lorebind_knowledge.declarations.sources import SourceBase
    from lorebind_knowledge.sources.base import Source
    from lorebind_knowledge.sources.environment import SourceEnvironment


class RedactingSource:
    """The same documents, with templates in place of the values of variables.

    Whatever the source within raises is a `SourceError`, and no document is larger than declared.
    """

    def __init__(
        self, inner: Source, declaration: SourceBase, environment: SourceEnvironment
    ) -> None:
        """
        Args:
            inner: the source.
            declaration: what it was made of.
            environment: what it was told; that may become more.
        """
        self._is_plugins = is_plugins(declaration)
        self.key = environment.key if self._is_plugins else inner.key
        self._names = not declaration.declares_uris
        self._max_bytes = declaration.max_bytes
        self._inner, self._environment = inner, environment

    def items(self) -> Iterator[SourceItem]:
        with self._redacting(f"{self.key}: cannot be listed"):
            for item in self._inner.items():
                uri = self._shown(item.uri) if self._names else item.uri
                yield SourceItem(uri, self._reading(item, uri), item.formerly or item.uri)

    def _reading(self, item: SourceItem, uri: str) -> Callable[[str], Any]:
        read: Callable[[str], Any] = item.read
        what = f"{uri}: cannot be read"
        if not (iscoroutinefunction(read) or self._is_plugins):

            def read_in_thread(version: str) -> Content | None:
                with self._redacting(what):
                    return self._redacted(read(version), uri)

            return read_in_thread

        async def read_in_loop(version: str) -> Content | None:
            with self._redacting(what):
                return self._redacted(await call(read, version), uri)

        return read_in_loop

    @contextmanager
    def _redacting(self, what: str) -> Iterator[None]:
        told = self._environment.told
        try:
            yield
        except SourceError as error:
            if not told:
                raise
            # Tracebacks show the cause too, and nobody has redacted that.
            raise SourceError(self._shown(str(error))) from None
        except LorebindError:
            raise
        except Exception as error:  # any third party's own exceptions
            said = f"{what}: {self._environment.say(error)}"
            raise SourceError(said) from (None if told else error)

    def _redacted(self, content: Content | None, uri: str) -> Content | None:
        if content is None:
            return None
        if len(content.data) > self._max_bytes:
            raise too_large(uri, self._max_bytes)
        return replace(content, metadata=self._said(content.metadata))

    def _shown(self, text: str) -> str:
        return without(text, self._environment.told)

    def _said(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._shown(value)
        if isinstance(value, Mapping):
            return {self._said(key): self._said(item) for key, item in value.items()}
        return [self._said(item) for item in value] if isinstance(value, list) else value
