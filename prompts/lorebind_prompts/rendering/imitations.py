"""Text in a prompt that is outside of the blocks, but reads like a block or an entry of one.

An answer that quotes a hostile document, inserted into another prompt, must not pass for passages
that were retrieved. So `<knowledge …>` gets a space after its first character, and the number at
the start of an entry, `- [1] …`, a backslash. Everything else stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from lorebind_prompts.cleaning import INVISIBLE
from lorebind_prompts.rendering.base import SPACE, spelled
from lorebind_prompts.rendering.registry import BUILT_IN, renderer_for

_NAME = rf"(?=[{INVISIBLE}]*+(?:/{SPACE})?+{spelled('knowledge')}(?:[\s/>{INVISIBLE}]|\Z))"
_DELIMITER = rf"<{_NAME}|(?<!\w)<(?i:{_NAME})"
"""In any case, but a type parameter such as `List<Knowledge>` stays."""


def without_imitations(pieces: Sequence[tuple[str, bool]], templates: Sequence[str] = ()) -> str:
    """Join the pieces of a text, without what reads like a block of passages.

    Args:
        pieces: each with whether it is foreign, such as a model's answer. The others are not
            changed, unless a foreign one completes them.
        templates: the templates that write passages in the same prompt.
    """
    foreign, at = [], 0
    for piece, is_foreign in pieces:
        if is_foreign and piece:
            foreign.append((at, at + len(piece)))
        at += len(piece)
    if not foreign:
        return "".join(piece for piece, _ in pieces)

    def broken(found: re.Match[str]) -> str:
        start, end = found.start(), found.end() + 1  # with the first character of the number
        if not any(start < stop and begin < end for begin, stop in foreign):
            return found[0]
        return "< " if found["delimiter"] else f"{found[0]}\\"

    return _imitations(tuple(templates)).sub(broken, "".join(piece for piece, _ in pieces))


@lru_cache(maxsize=64)
def _imitations(templates: tuple[str, ...]) -> re.Pattern[str]:
    renderers = [*BUILT_IN.values(), *map(renderer_for, templates)]
    entries = "|".join(f"(?:{renderer.imitation})" for renderer in renderers)
    return re.compile(rf"{entries}|(?P<delimiter>{_DELIMITER})")
