"""A source whose messages, names and metadata hold no value that a variable gave to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.redaction import without
from lorebind_knowledge.sources.base import Content, SourceItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lorebind_knowledge.sources.base import Source


class RedactingSource:
    """The same documents, with templates in place of the values of variables."""

    def __init__(self, inner: Source, values: Mapping[str, str], *, names: bool) -> None:
        """
        Args:
            inner: the source.
            values: what it was given, each with its template; they may become more.
            names: whether uris may hold values, because others than Lorebind made them.
        """
        self.key = inner.key
        self._inner, self._values, self._names = inner, values, names

    def items(self) -> Iterator[SourceItem]:
        with self._redacting():
            for item in self._inner.items():
                uri = self._shown(item.uri) if self._names else item.uri
                yield SourceItem(uri, self._reading(item), item.formerly or item.uri)

    def _reading(self, item: SourceItem) -> Callable[[str], Any]:
        read: Callable[[str], Any] = item.read
        if not iscoroutinefunction(read):

            def read_in_thread(version: str) -> Content | None:
                with self._redacting():
                    return self._redacted(read(version))

            return read_in_thread

        async def read_in_loop(version: str) -> Content | None:
            with self._redacting():
                return self._redacted(await read(version))

        return read_in_loop

    @contextmanager
    def _redacting(self) -> Iterator[None]:
        try:
            yield
        except SourceError as error:
            if not self._values:
                raise
            # Tracebacks show the cause too, and nobody has redacted that.
            raise SourceError(self._shown(str(error))) from None

    def _redacted(self, content: Content | None) -> Content | None:
        return content and replace(content, metadata=self._said(content.metadata))

    def _shown(self, text: str) -> str:
        return without(text, self._values)

    def _said(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._shown(value)
        if isinstance(value, Mapping):
            return {self._said(key): self._said(item) for key, item in value.items()}
        return [self._said(item) for item in value] if isinstance(value, list) else value
