"""Checks that the JSON Schemas of a project are valid, and that values match them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lorebind_config.declarations.base import Path
from lorebind_config.errors import MissingDependencyError
from lorebind_config.plugins import import_extra

_REFERENCES = ("$ref", "$dynamicRef")


def schema_faults(schema: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the path and the message of each fault; nothing if `jsonschema` is not installed."""
    try:
        validator = _validator(schema)
    except MissingDependencyError:
        return
    try:
        validator.check_schema(schema)
    except _library("jsonschema").SchemaError as error:
        yield tuple(error.path), _message(error)
        return
    dialect = _library("referencing.jsonschema").specification_with(
        validator.META_SCHEMA["$schema"]
    )
    registry = _library("jsonschema_specifications").REGISTRY
    resolver = registry.resolver_with_root(dialect.create_resource(schema))
    for path, reference in _references(schema):
        try:
            resolver.lookup(reference)
        except _library("referencing.exceptions").Unresolvable:
            yield path, f"there is no {reference!r} in it"  # other documents are never fetched


def mismatch(value: Any, schema: Mapping[str, Any]) -> str:
    """Return why and where a value does not match a JSON Schema; empty if it does.

    Raises:
        MissingDependencyError: `jsonschema` is not installed.
    """
    errors = _validator(schema).iter_errors(value)
    error = _library("jsonschema.exceptions").best_match(errors)
    if error is None:
        return ""
    return f"{error.message}, at {error.json_path}" if error.path else str(error.message)


def _message(error: Any) -> str:
    """Return the message for an invalid schema, with the list of words it must be one of."""
    listed = next((cause for cause in error.context if cause.validator == "enum"), None)
    if listed is None:
        return str(error.message)
    return (
        f"{error.instance!r} at {error.json_path} is not one of {', '.join(listed.validator_value)}"
    )


def _validator(schema: Mapping[str, Any]) -> Any:
    validators = _library("jsonschema.validators")
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    # By default, the validator would fetch the documents that references name.
    return kind(schema, registry=_library("jsonschema_specifications").REGISTRY)


def _library(module: str) -> Any:
    return import_extra(module, extra="workflow", purpose="checking values by a JSON Schema")


def _references(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if path and isinstance(value, dict) and "$id" in value:
        return  # a separate document: its references are relative to itself
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _REFERENCES and isinstance(item, str):
                yield (*path, key), item
            yield from _references(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _references(item, (*path, index))
