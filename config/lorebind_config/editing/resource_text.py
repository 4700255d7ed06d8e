"""Reads the texts that `apply` accepts: the output of `export` or `get`, or a single resource."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ValidationError

from lorebind_config.declarations.base import locate
from lorebind_config.declarations.resources import RESOURCES, SECTIONS, ResourcesDeclaration
from lorebind_config.errors import ConfigurationError, did_you_mean
from lorebind_config.reading.problems import problems
from lorebind_config.reading.yaml_source import YamlSource

_PRINTED = ("workflow", "knowledge_base", "with_defaults", "stats", "stats_error")
"""The keys in the output of `lorebind knowledge get`."""


def read_resources(text: str, shown_as: str) -> ResourcesDeclaration:
    """Return the resources that a text declares.

    Raises:
        ConfigurationError: The text is not valid. The error lists every problem.
    """
    source = _as_resources(YamlSource.parse(text, shown_as))
    found = list(source.problems)
    try:
        resources = ResourcesDeclaration.model_validate(source.data)
    except ValidationError as error:
        found += problems(error, source, ResourcesDeclaration)
    if found:
        raise ConfigurationError(found)
    locate(resources, source)
    twice = [
        source.problem((section, index, "id"), f"{one.label} id {one.id!r} is used twice")
        for section in SECTIONS
        for index, one in enumerate(getattr(resources, section))
        if one.id in [other.id for other in getattr(resources, section)[:index]]
    ]
    if twice:
        raise ConfigurationError(twice)
    return resources


def _as_resources(source: YamlSource) -> YamlSource:
    """Return a single resource, or the output of `get`, in the form of a file of resources."""
    data = source.data
    if isinstance(data.get("knowledge_base"), dict):
        nested = source.nested(("knowledge_bases", 0), top=("knowledge_base",))
        found = [
            source.problem((key,), f"unknown key {key!r}", did_you_mean(key, _PRINTED))
            for key in data
            if key not in _PRINTED
        ]
        if found:
            raise ConfigurationError(found)
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
