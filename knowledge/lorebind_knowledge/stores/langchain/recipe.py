"""The code that makes a LangChain `VectorStore`, and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lorebind_config.errors import LorebindError, StoreError
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.plumbing.bridge import finish

EMBEDDING_PARAMETERS = ("embedding", "embeddings", "embedding_function", "embedding_service")
"""The parameter names under which classes and factories take their `Embeddings`."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A class or a function, with its arguments."""

    name: str
    """The name in messages."""
    make: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    written: Any = None
    """The settings as written in the configuration. The values of their templates are secret."""
    parts: Mapping[str, Recipe] = field(default_factory=dict)
    """The recipes of settings that are objects."""

    @property
    def embedding_parameter(self) -> str | None:
        """The name of the parameter that takes the `Embeddings`, or None."""
        parameters = inspect.signature(self.make).parameters
        return next((name for name in EMBEDDING_PARAMETERS if name in parameters), None)

    def create_parts(self) -> dict[str, Any]:
        """Make the settings that are objects."""
        return {name: part.create(part.create_parts()) for name, part in self.parts.items()}

    def close(self, parts: Mapping[str, Any]) -> None:
        """Close the made parts that have a method `close`."""
        for part in parts.values():
            if callable(close := getattr(part, "close", None)):
                with self.redact_errors("cannot be closed"):
                    finish(close())

    def create(self, arguments: Mapping[str, Any]) -> Any:
        """Call the class or function with the settings and these arguments, which override them."""
        with self.redact_errors("cannot be created from this configuration"):
            return self.make(**{**self.settings, **arguments})

    @contextmanager
    def redact_errors(self, what: str) -> Iterator[None]:
        """Raise errors from the block as StoreError that says what failed, without secrets."""
        try:
            yield
        except LorebindError:
            raise
        except NotImplementedError as error:
            raise StoreError(f"{self.name} {what}: it has no method for it") from error
        except Exception as error:  # third-party code may raise anything
            written = self.settings if self.written is None else self.written
            message = redacted_message(error, written=written, resolved=self.settings)
            first, _, _ = message.partition("\n")  # later lines may repeat documents
            raise StoreError(f"{self.name} {what}: {first}") from error
