"""Passages written one after the other by a template of the user:

    --- Source {{ .marker }}: {{ .source }} ---
    {{ .content }}

Templates only look up names; they run no code. The content is on lines of its own, indented by two
spaces, so that no passage can write a line that looks like the template's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lorebind_config.declarations.base import RefusedError
from lorebind_config.declarations.rendering import check_passage_template
from lorebind_config.errors import UsageError
from lorebind_config.templates import TemplateError, fill, parts
from lorebind_prompts.cleaning import LINE_BREAKS, clean_line, clean_text
from lorebind_prompts.rendering.base import LINE_START, NUMBER, Passage, delimited, spelled
from lorebind_prompts.rendering.formats import indented

_CONTENT = re.compile(r"(?<![^\S\n])[^\S\n]*+\n?(\{\{\s*\.content\s*\}\})\n?")
_MARKER = re.compile(r"\[([0-9]+)\]")
_NUMBERS: dict[object, str] = {("marker",): NUMBER, ("index",): r"(?=\d)"}


class TemplateRenderer:
    """Writes each passage with a template.

    Args:
        template: may name `marker` (`[1]`), `index` (`1`), `source`, `content`, `score`, and
            `metadata` with its keys; must name `content` and one of the first two.

    Raises:
        UsageError: the template is malformed, or uses another name.
    """

    def __init__(self, template: str) -> None:
        try:
            check_passage_template(template)
        except RefusedError as error:
            raise UsageError(f"the template of the passages: {error}") from None
        self._template = _CONTENT.sub(r"\n\1\n", template).strip("\n")

    @property
    def imitation(self) -> str:
        """The start of each line of the template that has a number, up to the number."""
        lines = self._template.split("\n")
        return "|".join(filter(None, map(_up_to_number, lines))) or r"(?!)"

    def entry(self, passage: Passage) -> str:
        """Fill the template with the text, number and metadata of a passage."""
        scopes = {
            "marker": passage.marker,
            "index": passage.marker.strip("[]"),
            "source": _line(passage.source),
            "content": indented(clean_text(passage.content)),
            "score": f"{passage.score:.3f}",
            "metadata": _lines(passage.metadata),
        }
        try:
            return str(fill(self._template, scopes))
        except TemplateError as error:
            raise UsageError(f"the template of the passages: {error}") from None

    def block(self, entries: Sequence[str], label: str | None = None, *, weak: bool = False) -> str:
        """Join the entries in a delimited block with an optional label."""
        return delimited(entries, label=label, form="template", weak=weak)


def _up_to_number(line: str) -> str:
    """Return an expression for a line of a template up to its number; empty if it has none."""
    pattern, gap = LINE_START, ""
    for part in parts(line.lstrip()):
        if number := _NUMBERS.get(part):
            return f"{pattern}(?>{gap}{number})"
        if isinstance(part, str):
            pattern, gap = f"{pattern}(?>{gap}{spelled(part)})", ""
        else:
            gap = f"[^{LINE_BREAKS}]*?"
    return ""


def _lines(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata with each value on one line; missing keys become empty."""
    return _Missing({key: _line(str(value)) for key, value in metadata.items()})


def _line(text: str) -> str:
    """Return the text on one line, without anything that looks like the number of a passage."""
    return _MARKER.sub(r"(\1)", clean_line(text))


class _Missing(dict[str, Any]):
    """A mapping with an empty text for every key that a passage does not have."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return ""
