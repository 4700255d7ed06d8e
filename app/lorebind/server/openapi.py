"""The OpenAPI document of the server, from which programs make clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind.server.middleware.guard import OPEN
from lorebind.server.problems import MEDIA_TYPE, STATUS
from lorebind.server.server import PREFIX, TOKEN
from lorebind.server.state.tokens import LONGEST_NAME

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.routing import APIRoute

PROBLEM: dict[str, Any] = {
    "description": "A problem document (RFC 9457) with a stable code.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
"""The answer of a request that fails."""
_PROBLEM = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"enum": sorted(STATUS)},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
    },
}
_SECURITY = {
    TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `lorebind token create`. A server without tokens serves only "
        "its own machine, and needs none.",
    }
}
_IF_NONE_MATCH: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "ETags that you have: if one is current, the answer is 304, without a body.",
}
IF_MATCH: dict[str, Any] = _IF_NONE_MATCH | {
    "name": "If-Match",
    "description": "The ETag that you have read: if it is no longer current, nothing changes.",
}
"""The header of updates and deletions, for `openapi_extra`."""
IF_ABSENT: dict[str, Any] = _IF_NONE_MATCH | {
    "description": "`*`: create the resource only if it does not exist."
}
"""The header of creations, for `openapi_extra`."""
TENANT_HEADER: dict[str, Any] = {
    "name": "X-Tenant-ID",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
    "description": "The tenant, if the token is for several. By default its only one.",
}
"""The header of all routes that need a token."""


def operation_id(route: APIRoute) -> str:
    """Return the id of an operation: the name of its function, which clients use for a method."""
    return route.name


def describe(app: FastAPI) -> None:
    """Add to the document what all routes have in common: tokens, tenants and ETags."""
    document_of_routes = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = document_of_routes()
        document["components"]["securitySchemes"] = _SECURITY
        document["components"]["schemas"]["Problem"] = _PROBLEM
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                every = [] if path in OPEN else [{TOKEN: ["read"]}]
                operation.setdefault("security", every)
                if path not in OPEN:
                    operation.setdefault("parameters", []).append(TENANT_HEADER)
                content = operation["responses"].get("200", {}).get("content", {})
                if method == "get" and path.startswith(PREFIX) and "application/json" in content:
                    operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
                    operation["responses"]["304"] = {"description": "It has not changed"}
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI documents it
