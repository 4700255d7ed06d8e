"""Resources as text and as plain data: what `apply` accepts, and what `export` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from lorebind_config.declarations.base import Declaration, locate
from lorebind_config.declarations.project import RESOURCES, SECTIONS, ResourcesDeclaration
from lorebind_config.errors import ConfigurationError, did_you_mean
from lorebind_config.namespace import PROJECT_SCOPE
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.problems import findings
from lorebind_config.reading.yaml_source import YamlSource

_PRINTED = ("workflow", "knowledge_base", "with_defaults", "stats", "stats_error")
"""The keys in the output of `lorebind knowledge get`."""


def read_resources(text: str, shown_as: str) -> ResourcesDeclaration:
    """Return the resources that a text declares.

    Raises:
        ConfigurationError: The text is not valid. The error lists every problem.
    """
    source = _as_resources(YamlSource.parse(text, shown_as))
    problems = list(source.problems)
    try:
        resources = ResourcesDeclaration.model_validate(source.data)
    except ValidationError as error:
        problems += [problem for _, problem in findings(error, source, ResourcesDeclaration)]
    if problems:
        raise ConfigurationError(problems)
    locate(resources, source)
    twice = [
        source.problem((section, index, "id"), f"{resource.label} id {resource.id!r} is used twice")
        for section in SECTIONS
        for index, resource in enumerate(getattr(resources, section))
        if resource.id in [other.id for other in getattr(resources, section)[:index]]
    ]
    if twice:
        raise ConfigurationError(twice)
    return resources


def _as_resources(source: YamlSource) -> YamlSource:
    """Return a single resource, or the output of `get`, in the form of a file of resources."""
    data = source.data
    if isinstance(data.get("knowledge_base"), dict):
        nested = source.nested(("knowledge_bases", 0), top=("knowledge_base",))
        problems = [
            source.problem((key,), f"unknown key {key!r}", did_you_mean(key, _PRINTED))
            for key in data
            if key not in _PRINTED
        ]
        if problems:
            raise ConfigurationError(problems)
    elif "resource" in data:
        section = RESOURCES.get(data["resource"]) if isinstance(data["resource"], str) else None
        if section is None:
            message = f"resource {str(data['resource'])!r} cannot be applied"
            hint = did_you_mean(str(data["resource"]), RESOURCES)
            raise ConfigurationError([source.problem(("resource",), message, hint)])
        nested = source.nested((section, 0), without=("resource", "workflow"))
    elif "id" in data and not any(section in data for section in SECTIONS):
        hint = f"write resource: and one of: {', '.join(RESOURCES)}"
        raise ConfigurationError([source.problem((), "missing key 'resource'", hint)])
    else:
        return source
    if "workflow" not in data:
        return nested
    marks = {**nested.marks, ("workflow",): source.marks["workflow",]}
    return replace(nested, data={**nested.data, "workflow": data["workflow"]}, marks=marks)


def export_resources(
    loaded: LoadedProject, kb_id: str | None = None, workflow: str | None = None
) -> dict[str, Any]:
    """Return the resources of a project as plain data, with templates as they were written.

    Args:
        loaded: The project.
        kb_id: Id of a knowledge base to export alone, with the embedders and vector database that
            it uses; None exports everything. Defaults that are not declared are omitted.
        workflow: Id of the workflow that uses the knowledge base. If the workflow declares the
            knowledge base itself, the data has the key `workflow`. Without a `kb_id`, everything
            that the workflow declares is exported.

    Returns:
        Lists of resources by the keys of `SECTIONS`. Empty lists are omitted.

    Raises:
        NotFoundError: The knowledge base or the workflow does not exist.
    """
    project = loaded.project
    declared: dict[str, Sequence[Declaration]] = {
        section: getattr(project, section) for section in SECTIONS
    }
    owner = workflow
    if kb_id is not None or workflow is not None:
        if kb_id is not None:
            kb, scope = loaded.knowledge_base(kb_id, workflow)
            owner = None if scope == PROJECT_SCOPE else workflow
            kbs = [kb]
        else:
            kbs = loaded.workflow(str(workflow)).knowledge_bases
        embedders = {loaded.embedder(kb.embedder).id for kb in kbs}
        sparse = {used.id for kb in kbs if (used := loaded.sparse_embedder(kb))}
        vector_dbs = {loaded.vector_db(kb.vector_db).id for kb in kbs}
        declared = {
            "embedders": [embedder for embedder in project.embedders if embedder.id in embedders],
            "sparse_embedders": [used for used in project.sparse_embedders if used.id in sparse],
            "vector_dbs": [
                vector_db for vector_db in project.vector_dbs if vector_db.id in vector_dbs
            ],
            "knowledge_bases": kbs,
        }
    written = {
        section: [item.written() for item in some] for section, some in declared.items() if some
    }
    return written if owner is None else {"workflow": owner, **written}
