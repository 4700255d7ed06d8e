"""The inputs of a workflow, and the values that its templates can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_config.checks.template_checks import run_references, texts
from lorebind_config.errors import UsageError, did_you_mean
from lorebind_config.reading.yaml_source import described_type
from lorebind_config.templates import HintingScope, TemplateError, fill, mentions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
    from lorebind_config.declarations.workflows import WorkflowDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_config.templates import Environment


def check_inputs(
    declared: WorkflowDeclaration, inputs: Mapping[str, Any], *, need_all: bool = True
) -> dict[str, Any]:
    """Return the inputs with defaults filled in.

    Raises:
        UsageError: inputs are unknown, missing or of another type. The message names each of them,
            the expected type and the known inputs.
    """
    argument = "input" if need_all else "inputs"  # the names in the bodies of runs and ingests
    wrong: list[UsageError] = []

    def refuse(name: str, why: str) -> None:
        wrong.append(UsageError(why, at=(argument, name)))

    for name in inputs:
        if name not in declared.input:
            hint = did_you_mean(name, declared.input)
            refuse(name, f"workflow {declared.id!r} has no input {name!r}; {hint}")
    values: dict[str, Any] = {}
    for name, expected in declared.input.items():
        if name in inputs:
            values[name] = inputs[name]
            if not expected.accepts(values[name]):
                refuse(
                    name,
                    f"input {name!r} of workflow {declared.id!r} must be of type {expected.type}, "
                    f"got {_described(values[name])}",
                )
        elif not expected.required or expected.default is not None:
            values[name] = expected.default
        elif need_all:
            refuse(name, f"workflow {declared.id!r} needs the input {name!r}")
    if wrong:
        raise UsageError.of(wrong)
    return values


def _described(value: Any) -> str:
    return "a decimal number" if isinstance(value, float) else described_type(value)


def running_scope(
    environment: Environment, declared: WorkflowDeclaration, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of `{{ .workflow.… }}` in a running workflow: `input` and `vars`.

    Raises:
        TemplateError: a variable uses a name that is not defined.
    """
    return {"input": values, "vars": fill(dict(declared.vars), _before(environment, values))}


def ingest_scope(
    loaded: LoadedProject, workflow: str, inputs: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the values of `{{ .workflow.… }}` for the sources of the workflow's knowledge bases.

    These sources can be ingested without running the workflow, so inputs may be missing. Missing
    inputs, and variables that use them, are not in the result, and only sources that use them fail.
    Values from the environment carry how they may be displayed, see `TracedText`.

    Raises:
        UsageError: an input is unknown or of another type.
    """
    declared = loaded.workflow(workflow)
    values = HintingScope(check_inputs(declared, inputs or {}, need_all=False))
    values.hints = {
        name: f"pass the input {name!r}: --input {name}=…, or inputs={{{name!r}: …}} in Python"
        for name in declared.input
    }
    scopes = _before(loaded.environment, values) | loaded.environment.traced_scopes()
    variables = HintingScope()
    for name, value in declared.vars.items():
        try:
            variables[name] = fill(value, scopes)
        except TemplateError as error:
            variables.hints[name] = error.hint
    return {"input": values, "vars": variables}


def needed_inputs(declared: WorkflowDeclaration, kb: KnowledgeBaseDeclaration) -> list[str]:
    """Return the inputs without a default that the sources of a workflow's knowledge base use."""
    used = run_references(kb)
    for _, _, name, *_ in (
        reference for reference in used if reference[:2] == ("workflow", "vars") and reference[2:]
    ):
        for _, text in texts([declared.vars.get(name)]):
            used += mentions(text)
    short = [reference[1:] if reference[0] == "workflow" else reference for reference in used]
    named = {
        reference[1] for reference in short if reference[:1] == ("input",) and len(reference) > 1
    }
    return [
        name
        for name, declaration in declared.input.items()
        if name in named and declaration.required and declaration.default is None
    ]


def _before(environment: Environment, values: Mapping[str, Any]) -> dict[str, Any]:
    return {**environment.scopes(), "input": values, "workflow": {"input": values}}
