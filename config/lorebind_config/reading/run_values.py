"""Finds the values of a workflow's run that the sources of a knowledge base refer to."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lorebind_config.checks.template_checks import texts
from lorebind_config.templates import language as templates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_config.declarations import KnowledgeBaseDeclaration


def run_references(declaration: KnowledgeBaseDeclaration) -> list[templates.Reference]:
    """Return the references in its sources whose values only a run of its workflow knows."""
    return [
        reference
        for _, text in texts([source.model_dump() for source in declaration.sources])
        for reference in templates.mentions(text)
        if reference[0] in ("workflow", "input")
    ]


def run_values(declaration: KnowledgeBaseDeclaration, given: Mapping[str, Any]) -> str | None:
    """Return the values of these references in a run, as JSON; None if there are no references.

    Args:
        declaration: The knowledge base.
        given: The values of `{{ .workflow.… }}`: `input` and `vars`.
    """
    scopes = {"workflow": given, "input": given.get("input", {})}
    values: dict[str, Any] = {}
    for reference in run_references(declaration):
        with suppress(templates.TemplateError):  # the source itself reports it
            values[".".join(reference)] = templates.look_up(reference, scopes)
    return json.dumps(values, sort_keys=True, default=str) if values else None
