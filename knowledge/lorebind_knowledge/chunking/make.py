"""Make the chunker that a chunking declaration describes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lorebind_config.errors import PluginError, SourceError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_config.templates import Environment
from lorebind_knowledge.chunking.base import Chunker

if TYPE_CHECKING:
    from lorebind_config.declarations.knowledge_bases import ChunkerBase
    from lorebind_knowledge.chunking.base import Interval
    from lorebind_knowledge.chunking.changes import Embed


class ChunkerEnvironment(PartEnvironment):
    """The project's environment for a chunker, with the embedder for semantic chunking."""

    def __init__(self, environment: Environment, embed: Embed | None, embedder: str) -> None:
        super().__init__(environment)
        self.embed, self.embedder = embed, embedder


def make_chunker(
    declaration: ChunkerBase,
    embed: Embed | None = None,
    embedder: str = "",
    environment: Environment | None = None,
) -> Chunker:
    """Return the chunker that a declaration describes.

    Args:
        declaration: the chunking declaration.
        embed: computes vectors for sentences, for the semantic chunker; without it, that chunker
            compares words.
        embedder: identifies the embedder of `embed`; it is part of the chunker's fingerprint.
        environment: the project's environment.

    Raises:
        PluginError: the chunker cannot be made, or the plugin is broken.
    """
    settings = ChunkerEnvironment(environment or Environment(Path()), embed, embedder)

    def checked(chunker: Chunker, _: object) -> Chunker:
        return _Checked(chunker, getattr(declaration, declaration.kind_key), settings)

    members = ("fingerprint", "split")
    chunker: Chunker = make_part("chunkers", declaration, settings, members, PluginError, checked)
    return chunker


class _Checked(Chunker):
    """A wrapper that checks a chunker's intervals.

    Intervals outside of the part, and errors of the chunker, raise a `SourceError` that names the
    chunker. Only the document being split fails.
    """

    def __init__(self, inner: Chunker, word: str, environment: PartEnvironment) -> None:
        self._inner, self._word, self._environment = inner, word, environment

    @property
    def fingerprint(self) -> str:
        return f"{self._word} {self._inner.fingerprint}"

    @property
    def notices(self) -> Sequence[str]:
        return getattr(self._inner, "notices", ())

    @property
    def estimates(self) -> bool:
        return bool(getattr(self._inner, "estimates", False))

    def for_language(self, language: str) -> Chunker:
        if not hasattr(self._inner, "for_language"):
            return self
        chunker = self._inner.for_language(language)
        return self if chunker is self._inner else _Checked(chunker, self._word, self._environment)

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        with self._environment.redact_errors(SourceError, f"the chunker {self._word!r} failed"):
            cuts = self._inner.split(text, start, end, boundaries)
            intervals = [(int(first), int(last)) for first, last in cuts]
        for first, last in intervals:
            if not start <= first < last <= end:
                raise SourceError(
                    f"the chunker {self._word!r} returned the interval {first} to {last} "
                    f"for a text from {start} to {end}"
                )
        return intervals
