"""Generate the reference of the REST API, one Markdown page, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from lorebind import Project
from lorebind.server.app import make_api
from lorebind.server.openapi import TENANT_HEADER
from lorebind.server.server import TOKEN, Server

Schema: TypeAlias = Mapping[str, Any]

PAGE = "docs/reference/rest.md"

_INTRODUCTION = """\
# REST API

The routes of `lorebind serve`, with their parameters, bodies and answers. A server returns the same
as an OpenAPI document, `GET /api/v0/openapi.json`, from which you can make a client. How to use
them is in [Serve a project](../how-to/server.md).

A token has the rights `read`, `write` or `admin`; each includes the ones before. Paths without
rights need no token. If a token is valid for several tenants, name one as `X-Tenant-ID`. A failed
request is answered with a [problem](#problem), whose `code` is one of
[these](errors.md#problem-codes-of-the-rest-api).
"""


def rest_reference() -> str:
    """Return the page: a table of all routes, then a section for each route and each model."""
    with Project.build({"name": "reference"}) as project:
        document = make_api(Server(project)).openapi()
    routes = [
        (f"{method.upper()} {path}", operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    rows = [
        f"| [`{route}`](#{each['operationId']}) | {_summary(each)} | {_rights(each)} |"
        for route, each in routes
    ]
    models = document["components"]["schemas"]
    return "\n".join(
        [
            _INTRODUCTION,
            *("| route | what it does | rights |", "| --- | --- | --- |", *rows, ""),
            *(line for route, operation in routes for line in _route(route, operation)),
            *("## Models", ""),
            *(line for name in sorted(models) for line in _model(name, models[name])),
        ]
    )


def _route(route: str, operation: Schema) -> Iterator[str]:
    yield f"## `{route}` {{ #{operation['operationId']} }}"
    yield ""
    yield _paragraphs(operation["description"])
    yield ""
    # The introduction of the page describes the header of the tenant, which all routes have.
    parameters = [each for each in operation.get("parameters", ()) if each != TENANT_HEADER]
    if parameters:
        yield "| parameter | in | type | default | what it is |"
        yield "| --- | --- | --- | --- | --- |"
        for each in parameters:
            required = " (required)" if each["required"] and each["in"] != "path" else ""
            schema, about = each["schema"], each.get("description", "")
            yield (
                f"| `{each['name']}`{required} | {each['in']} | {_type(schema)} | "
                f"{_default(schema)} | {_cell(about)} |"
            )
        yield ""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body, `{kind}`: {_type(content['schema'])}"
        yield ""
    for status, answer in operation["responses"].items():
        if status not in ("4XX", "5XX"):
            types = [
                f"`{kind}`: {_type(content.get('schema', {}))}"
                for kind, content in answer.get("content", {}).items()
            ]
            meaning = _cell(answer["description"]).replace("Successful Response", "The answer")
            yield f"- `{status}`: {meaning}{'; ' if types else ''}{'; '.join(types)}"
    yield ""


def _model(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name} {{ #{name.lower()} }}"
    yield ""
    if about := schema.get("description"):
        yield _paragraphs(about)
        yield ""
    yield "| member | type | default | what it is |"
    yield "| --- | --- | --- | --- |"
    required = schema.get("required", ())
    for key, member in schema.get("properties", {}).items():
        marked = f"`{key}`{' (required)' if key in required else ''}"
        about = _cell(member.get("description", ""))
        yield f"| {marked} | {_type(member)} | {_default(member)} | {about} |"
    yield ""


def _type(schema: Schema) -> str:
    """Return a type in words, with links to models."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[key])))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(values := schema.get("additionalProperties"), dict):
        return f"object of {_type(values)}" if values else "object"
    limits = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"))
        if key in schema
    ]
    return " ".join([str(kind), *([f"({', '.join(limits)})"] if limits else [])])


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default in (None, "", [], {}) else f"`{str(default).lower()}`"


def _rights(operation: Schema) -> str:
    return "".join(right for scheme in operation["security"] for right in scheme[TOKEN])


def _summary(operation: Schema) -> str:
    return _cell(operation["description"].partition("\n\n")[0].removesuffix("."))


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
