"""Prompts that say where passages belong: `{{ .context_docs }}`, `{{ .workflow.vars.docs }}`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration import fill, injected_variable, references

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lorebind_knowledge.configuration import Reference


@dataclass(frozen=True, slots=True)
class Block:
    """A text for a prompt, and where the binding wants it."""

    text: str
    inject_as: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked: a template, in which blocks of passages may have their places."""

    template: str
    scopes: Mapping[str, Any] = field(default_factory=dict)
    """What its other names stand for."""

    def places(self, inject_as: str | None) -> Reference:
        """The place of what is injected so; empty where the prompt has none for it."""
        variable = injected_variable(inject_as) if inject_as else ()
        return variable if variable in references(self.template) else ()

    def question(self, places: Iterable[str | None] = ()) -> str:
        """The text without any passage: what is searched for, where nothing else is named.

        Args:
            places: the `inject_as` of all bindings.

        Raises:
            TemplateError: a name that is neither in the scopes nor a place.
        """
        return self._filled({self.places(inject_as): [] for inject_as in places})

    def filled(
        self, blocks: Sequence[Block], places: Iterable[str | None] = ()
    ) -> tuple[list[str], str]:
        """The blocks that have no place in the text, and the text with the others in theirs.

        Several in one place stand one below the other; a place whose block is not there is empty.
        """
        placed: dict[Reference, list[str]] = {self.places(inject_as): [] for inject_as in places}
        for block in blocks:
            placed.setdefault(self.places(block.inject_as), []).append(block.text)
        before = placed.pop((), [])
        return before, self._filled(placed)

    def _filled(self, texts: Mapping[Reference, Sequence[str]]) -> str:
        scopes = self.scopes
        for place, parts in texts.items():
            if place:
                scopes = _with(scopes, place, "\n\n".join(parts))
        return str(fill(self.template, scopes))


def literal(text: str) -> Prompt:
    """A prompt that is the text as it stands, whatever is in it."""
    # Of two names: no block can be injected as that.
    return Prompt("{{ .asked.text }}", {"asked": {"text": text}})


def label_of(inject_as: str | None) -> str | None:
    """What a block is called: the label itself, or the last name of a variable."""
    variable: Collection[str] = injected_variable(inject_as) if inject_as else ()
    return list(variable)[-1] if variable else inject_as


def _with(scopes: Mapping[str, Any], place: Reference, value: str) -> dict[str, Any]:
    name, *rest = place
    below = scopes.get(name) if rest else None
    inner = below if isinstance(below, dict) else {}
    return {**scopes, name: _with(inner, tuple(rest), value) if rest else value}
