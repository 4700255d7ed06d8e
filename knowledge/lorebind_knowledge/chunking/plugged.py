"""Chunkers that plugins make."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lorebind_knowledge.chunking.base import Chunker
from lorebind_knowledge.configuration.plugged import PluginEnvironment, make_plugged
from lorebind_knowledge.errors import LorebindError, PluginError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.chunking.base import Interval
    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.chunking import ChunkerBase

_MEMBERS = ("fingerprint", "split")


def make_plugged_chunker(declaration: ChunkerBase, environment: Environment) -> Chunker:
    """The chunker of a plugin.

    Raises:
        PluginError: it cannot be made, or the plugin is broken.
    """
    confided = PluginEnvironment(environment)
    made = make_plugged("chunkers", declaration, confided, _MEMBERS, PluginError)
    word = getattr(declaration, declaration.kind_key)
    return _Checked(cast("Chunker", made), word, confided)


class _Checked(Chunker):
    """Passes on intervals that lie within the text, and names whose they are if they do not.

    What it refuses is an error of the one document.
    """

    def __init__(self, inner: Chunker, word: str, environment: PluginEnvironment) -> None:
        self._inner, self._word, self._environment = inner, word, environment

    @property
    def fingerprint(self) -> str:
        return f"{self._word} {self._inner.fingerprint}"

    @property
    def notices(self) -> Sequence[str]:
        return getattr(self._inner, "notices", ())

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        try:
            given = self._inner.split(text, start, end, boundaries)
            intervals = [(int(first), int(last)) for first, last in given]
        except LorebindError:
            raise
        except Exception as error:  # any plugin's own exceptions
            said = self._environment.say(error)
            raise SourceError(f"the chunker {self._word!r} failed: {said}") from error
        for first, last in intervals:
            if not start <= first < last <= end:
                raise SourceError(
                    f"the chunker {self._word!r} gave the interval {first} to {last} "
                    f"of a text from {start} to {end}"
                )
        return intervals
