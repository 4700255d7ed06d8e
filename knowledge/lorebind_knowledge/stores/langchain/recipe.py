"""What makes a `VectorStore` of LangChain: code that was named, and its arguments."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import finish
from lorebind_knowledge.errors import LorebindError, StoreError
from lorebind_knowledge.redaction import said_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

EMBEDDING_PARAMETERS = ("embedding", "embeddings", "embedding_function", "embedding_service")
"""The names by which classes and factories take their `Embeddings`."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A class or a function, and its arguments."""

    name: str
    """As messages call it."""
    make: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    written: Any = None
    """The settings as they stand in the configuration; what their templates gave is secret."""
    parts: Mapping[str, Recipe] = field(default_factory=dict)
    """What makes those of the settings that are objects."""

    @property
    def embedding_parameter(self) -> str | None:
        """The name of the argument that takes the `Embeddings`, where there is one."""
        parameters = inspect.signature(self.make).parameters
        return next((name for name in EMBEDDING_PARAMETERS if name in parameters), None)

    def made_parts(self) -> dict[str, Any]:
        """The settings that are objects, made."""
        return {name: part.made(part.made_parts()) for name, part in self.parts.items()}

    def close(self, parts: Mapping[str, Any]) -> None:
        """Close those of the made parts that can be closed."""
        for part in parts.values():
            if callable(close := getattr(part, "close", None)):
                with self.saying("cannot be closed"):
                    finish(close())

    def made(self, arguments: Mapping[str, Any]) -> Any:
        """What the settings make together with these, which replace some or are beside them."""
        with self.saying("cannot be made with the configuration given"):
            return self.make(**{**self.settings, **arguments})

    @contextmanager
    def saying(self, what: str) -> Iterator[None]:
        """Whatever is raised inside becomes a StoreError that says what failed, without secrets."""
        try:
            yield
        except LorebindError:
            raise
        except NotImplementedError as error:
            raise StoreError(f"{self.name} {what}: it has no method for it") from error
        except Exception as error:  # whatever a third party raises
            written = self.settings if self.written is None else self.written
            said = said_by(error, written=written, resolved=self.settings)
            first, _, _ = said.partition("\n")  # further lines may repeat documents
            raise StoreError(f"{self.name} {what}: {first}") from error
