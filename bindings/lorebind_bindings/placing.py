"""Prompts that say where passages belong: `{{ .context_docs }}`, `{{ .workflow.vars.docs }}`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration import injected_variable, references, resolve

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lorebind_knowledge.configuration import Reference


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

    def filled(self, blocks: Mapping[Reference, Sequence[str]]) -> str:
        """The text, with the blocks in their places, several in one place one below the other.

        Raises:
            TemplateError: a name that is neither in the scopes nor among the blocks.
        """
        scopes = self.scopes
        for place, texts in blocks.items():
            scopes = _with(scopes, place, "\n\n".join(texts))
        return str(resolve(self.template, scopes))


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
