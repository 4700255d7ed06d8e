"""A source with `metadata`: values that it adds to each of its documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from lorebind_config.declarations.path_fields import path_expression
from lorebind_config.namespace import digest
from lorebind_knowledge.text.values import typed

if TYPE_CHECKING:
    from lorebind_config.declarations.sources import SourceMetadata
    from lorebind_knowledge.sources.base import Content, Source, SourceItem


class DescribedSource:
    """A wrapper that adds the declared metadata to what a source returns.

    The declaration is part of the versions of documents, so that they are read again when it
    changes.
    """

    def __init__(self, inner: Source, declared: SourceMetadata) -> None:
        self._inner: Any = inner
        self.key = inner.key
        self.notices: list[str] = []
        self._declared = declared
        self._suffix = f"+{digest(json.dumps(declared.written(), sort_keys=True))[:12]}"
        self._fields = _reader_of(declared.from_path)

    def items(self) -> Iterator[SourceItem]:
        """Yield all documents; see `Source.items`."""
        matched = not self._declared.from_path
        for item in self._inner.items():
            matched = matched or (
                not (item.skipped or item.unlisted) and bool(self._fields(item.uri))
            )
            yield self._wrapped(item)
        self.notices = [*self._inner.notices]
        if not matched:
            pattern = self._declared.from_path
            self.notices.append(f"from_path: {pattern} matches the uri of no document")

    def restore(self, token: bytes) -> SourceItem:
        """Return a listed item; see `SourceItem.token`."""
        return self._wrapped(self._inner.restore(token))

    def _wrapped(self, item: SourceItem) -> SourceItem:
        read: Callable[[str], Any] = item.read
        is_async = iscoroutinefunction(read)
        read = self._reading(read, item.uri) if is_async else partial(self._read, read, item.uri)
        version = f"{item.version}{self._suffix}" if item.version else ""
        return item._replace(read=read, version=version)

    def _read(self, read: Callable[[str], Any], uri: str, version: str) -> Content | None:
        return self._described(read(self._own(version)), uri)

    def _reading(self, read: Callable[[str], Any], uri: str) -> Callable[[str], Any]:
        async def read_in_loop(version: str) -> Content | None:
            return self._described(await read(self._own(version)), uri)

        return read_in_loop

    def _own(self, version: str) -> str:
        """Return the version that the source knows; empty if the declaration has changed."""
        return version.removesuffix(self._suffix) if version.endswith(self._suffix) else ""

    def _described(self, content: Content | None, uri: str) -> Content | None:
        if content is None:
            return None
        declared = self._declared
        metadata = {**declared.static, **self._fields(uri), **content.metadata}
        version = f"{content.version}{self._suffix}" if content.version else ""
        reads = declared if declared.reads_documents else None
        return replace(content, metadata=metadata, version=version, declared=reads)


def _reader_of(pattern: str | None) -> Callable[[str], Mapping[str, Any]]:
    """Return the function that reads the fields of a pattern from a uri."""
    if pattern is None:
        return lambda uri: {}
    import re2

    options = re2.Options()
    options.case_sensitive, options.log_errors = False, False
    # RE2, because a hostile name must not take exponential time to compare.
    expression = re2.compile(f"(?s:{path_expression(pattern)})", options)

    def fields(uri: str) -> Mapping[str, Any]:
        match = expression.fullmatch(uri)
        texts = match.groupdict() if match else {}
        return {name: text if name == "title" else typed(text) for name, text in texts.items()}

    return fields
