"""Sources that plugins make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import call
from lorebind_knowledge.configuration.plugged import make_plugged
from lorebind_knowledge.errors import LorebindError, SourceError
from lorebind_knowledge.sources.base import SourceItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lorebind_knowledge.configuration.plugged import PluginEnvironment
    from lorebind_knowledge.declarations.sources import SourceBase
    from lorebind_knowledge.sources.base import Content, Source

_MEMBERS = ("items",)


def make_plugged_source(declaration: SourceBase, confided: PluginEnvironment, key: str) -> Source:
    """The source of a plugin, known by the key of its declaration. Nothing is fetched yet.

    Raises:
        SourceError: it cannot be made with what was declared.
        PluginError: the plugin is broken.
    """
    made = make_plugged("sources", declaration, confided, _MEMBERS, SourceError)
    return _Bounded(made, key, declaration.max_bytes, confided)


class _Bounded:
    """Says what the plugin's exceptions say, and keeps to `max_bytes`."""

    def __init__(
        self, inner: Source, key: str, max_bytes: int, environment: PluginEnvironment
    ) -> None:
        self.key = key
        self._inner, self._max_bytes, self._environment = inner, max_bytes, environment

    def items(self) -> Iterator[SourceItem]:
        try:
            for item in self._inner.items():
                yield SourceItem(item.uri, self._reading(item))
        except LorebindError:
            raise
        except Exception as error:  # any plugin's own exceptions
            said = self._environment.say(error)
            raise SourceError(f"{self.key}: cannot be listed: {said}") from error

    def _reading(self, item: SourceItem) -> Callable[[str], Any]:
        async def read(version: str) -> Content | None:
            try:
                content: Content | None = await call(item.read, version)
                size = 0 if content is None else len(content.data)
            except LorebindError:
                raise
            except Exception as error:  # any plugin's own exceptions
                said = self._environment.say(error)
                raise SourceError(f"{item.uri}: cannot be read: {said}") from error
            if size > self._max_bytes:
                raise SourceError(
                    f"{item.uri}: is {size:,} bytes long, and max_bytes allows {self._max_bytes:,}"
                )
            return content

        return read
