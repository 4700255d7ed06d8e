"""Prompt templates with places for passages: `{{ .context_docs }}`, `{{ .workflow.vars.docs }}`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_config.templates import (
    as_text,
    injected_variable,
    look_up,
    parts,
    references,
)
from lorebind_prompts.rendering.blocks import without_imitations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lorebind_config.templates import Reference


@dataclass(frozen=True, slots=True)
class Block:
    """A text for a prompt, and the place where the binding wants it."""

    text: str
    inject_as: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template for a prompt, which may contain places for blocks of passages."""

    template: str
    scopes: Mapping[str, Any] = field(default_factory=dict)
    """The values of the other names in the template."""
    is_foreign: Callable[[Reference], bool] = lambda _: False
    """Whether a value must not read like a block of passages, see `without_imitations`."""
    renderers: Sequence[str] = ()
    """The templates that write the passages of the prompt."""

    def places(self, inject_as: str | None) -> Reference:
        """Return the place of an `inject_as` in the template, or `()` if it has none."""
        variable = injected_variable(inject_as) if inject_as else ()
        return variable if variable in references(self.template) else ()

    def question(self, places: Iterable[str | None] = ()) -> str:
        """Return the text without passages, which is searched for if no query is given.

        Args:
            places: the `inject_as` of all bindings.

        Raises:
            TemplateError: a name is neither in the scopes nor a place.
        """
        return self._filled({self.places(inject_as): [] for inject_as in places})

    def filled(
        self, blocks: Sequence[Block], places: Iterable[str | None] = ()
    ) -> tuple[list[str], str]:
        """Return the blocks that have no place in the text, and the text with all other blocks.

        Blocks with the same place are joined with a blank line. A place without a block is empty.
        """
        placed: dict[Reference, list[str]] = {self.places(inject_as): [] for inject_as in places}
        for block in blocks:
            placed.setdefault(self.places(block.inject_as), []).append(block.text)
        before = placed.pop((), [])
        return before, self._filled(placed)

    def _filled(self, texts: Mapping[Reference, Sequence[str]]) -> str:
        pieces = []
        for part in parts(self.template):
            if isinstance(part, str):
                pieces.append((part, False))
            elif part in texts:
                pieces.append(("\n\n".join(texts[part]), False))
            else:
                pieces.append((as_text(look_up(part, self.scopes)), self.is_foreign(part)))
        return without_imitations(pieces, self.renderers)


def literal(text: str) -> Prompt:
    """Return a prompt that is exactly the given text: template syntax in it is not evaluated."""
    # The name has two parts, so no `inject_as` can refer to it.
    return Prompt("{{ .asked.text }}", {"asked": {"text": text}})


def label_of(inject_as: str | None) -> str | None:
    """Return the label of a block: the label itself, or the last name of a variable."""
    variable: Collection[str] = injected_variable(inject_as) if inject_as else ()
    return list(variable)[-1] if variable else inject_as
