"""Turn all errors into problem documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from lorebind.server.bodies import UNREADABLE
from lorebind.server.problems import ProblemError, problem_of
from lorebind_config.declarations.base import RefusedError
from lorebind_config.errors import LorebindError
from lorebind_config.reading.at_run_time import pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_BY_STATUS = {400: "invalid_json", 404: "not_found", 415: "unsupported_media_type"}


def answer_failures(app: FastAPI) -> None:
    """Let an application answer every error with a problem document."""

    def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            problem = _http(app, request, error)
        elif isinstance(error, RequestValidationError):
            is_other = isinstance(error.body, bytes) and error.body  # it was not read as JSON
            problem = _unsupported(request) if is_other else invalid_request(error)
        else:  # an unexpected error is raised again after this, and the guard logs it
            problem = problem_of(error)
        return problem.response(request.url.path)

    for kind in (ProblemError, LorebindError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def invalid_request(error: RequestValidationError) -> ProblemError:
    """Return a problem that lists everything that is wrong with a request."""
    problems = error.errors()
    broken = next((item for item in problems if item["type"] == "json_invalid"), None)
    if broken is not None:
        words, at = broken["ctx"]["error"], broken["loc"][-1]
        return ProblemError("invalid_json", f"the body is not JSON: {words} at character {at}")
    return ProblemError(
        "invalid_request",
        "the request is not valid; see errors",
        {"errors": [error for item in problems for error in _errors(item)]},
    )


def _unsupported(request: Request) -> ProblemError:
    content_type = request.headers.get("content-type", "none")
    detail = f"send JSON, as Content-Type: application/json; got {content_type!r}"
    return ProblemError("unsupported_media_type", detail, headers={"Accept": "application/json"})


def _errors(problem: Any) -> Iterator[dict[str, str]]:
    """Convert an error of pydantic, with JSON pointers into the body or the name of a parameter."""
    where, *path = problem["loc"]
    refused = problem.get("ctx", {}).get("error")
    if isinstance(refused, RefusedError) and where == "body":
        for fault in refused.faults:
            at = pointer((*path, *fault.path))
            yield {"pointer": at, "message": fault.message, "hint": fault.hint}
        return
    message = problem["msg"].removeprefix("Value error, ")
    if where == "body":
        yield {"pointer": pointer(tuple(path)), "message": message, "hint": ""}
        return
    name = ".".join(map(str, path))
    yield {"pointer": "", "parameter": name, "message": f"{name}: {message}", "hint": ""}


def _http(app: FastAPI, request: Request, error: HTTPException) -> ProblemError:
    if error.status_code == 413:
        return ProblemError("too_large", str(error.detail))
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(app, request)))
        detail = f"{request.method} is not allowed here; allowed: {allowed}"
        return ProblemError("method_not_allowed", detail, headers={"Allow": allowed})
    code = _BY_STATUS.get(error.status_code, "invalid_request")
    if code == "invalid_json" and isinstance(error.__cause__, ValueError | RecursionError):
        return ProblemError(code, f"the body is not JSON: {UNREADABLE}")
    detail = "there is no resource at this path" if code == "not_found" else str(error.detail)
    return ProblemError(code, detail)


def _methods(app: FastAPI, request: Request) -> set[str]:
    """Return the methods of the resource at the path of a request."""
    paths = app.openapi()["paths"]

    def methods_of(parameter: str, shown_as: str) -> set[str]:
        matching = [
            path
            for path in paths
            if compile_path(path.replace(parameter, shown_as))[0].match(request.url.path)
        ]
        # A path without a parameter is another resource than one whose parameter may have its name.
        fewest = min((path.count("{") for path in matching), default=0)
        nearest = [path for path in matching if path.count("{") == fewest]
        return {method.upper() for path in nearest for method in paths[path]}

    # OpenAPI cannot express that a parameter may contain slashes.
    methods = methods_of("", "") or methods_of("{thread_id}", "{thread_id:path}")
    return methods | {"HEAD"} if "GET" in methods else methods
