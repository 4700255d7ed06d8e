"""What the sources of a knowledge base name of a workflow's run."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration import templates
from lorebind_knowledge.configuration.template_checks import texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.declarations import KnowledgeBaseDeclaration


def run_references(declaration: KnowledgeBaseDeclaration) -> list[templates.Reference]:
    """The names in its sources that only a run of its workflow knows."""
    return [
        reference
        for _, text in texts([source.model_dump() for source in declaration.sources])
        for reference in templates.mentions(text)
        if reference[0] in ("workflow", "input")
    ]


def run_values(declaration: KnowledgeBaseDeclaration, given: Mapping[str, Any]) -> str | None:
    """Their values in a run, as JSON; None if there are none.

    Args:
        declaration: the knowledge base.
        given: what `{{ .workflow.… }}` stands for: `input` and `vars`.
    """
    scopes = {"workflow": given, "input": given.get("input", {})}
    values: dict[str, Any] = {}
    for reference in run_references(declaration):
        with suppress(templates.TemplateError):  # the source itself will say so
            values[".".join(reference)] = templates.look_up(reference, scopes)
    return json.dumps(values, sort_keys=True, default=str) if values else None
