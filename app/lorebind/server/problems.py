"""Problem documents (RFC 9457): the problem with a stable `code`, and a suggested fix."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_config import errors
from lorebind_config.reading.at_run_time import pointer

if TYPE_CHECKING:
    from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"

MCP = "/mcp"
"""The path of the Model Context Protocol."""
OPENAI = "/v1/"
"""The start of the paths that answer as OpenAI does."""
_INVALID = "invalid_request_error"
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}

STATUS = {
    "invalid_json": 400,
    "invalid_cursor": 400,
    "invalid_header": 400,
    "tenant_required": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "tenant_forbidden": 403,
    "host_refused": 403,
    "origin_refused": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "declared_in_yaml": 409,
    "document_changed": 409,
    "document_of_source": 409,
    "ingest_running": 409,
    "started_elsewhere": 409,
    "mass_delete_refused": 409,
    "not_ingested": 409,
    "index_mismatch": 409,
    "thread_refused": 409,
    "declarations_changed": 409,
    "precondition_failed": 412,
    "too_large": 413,
    "unsupported_media_type": 415,
    "invalid_request": 422,
    "idempotency_mismatch": 422,
    "precondition_required": 428,
    "rate_limited": 429,
    "internal_error": 500,
    "embedder_failed": 502,
    "reranker_failed": 502,
    "model_failed": 502,
    "source_failed": 502,
    "tool_failed": 502,
    "task_failed": 502,
    "ingest_failed": 502,
    "store_unavailable": 503,
    "not_installed": 503,
    "not_configured": 503,
    "draining": 503,
    "timeout": 504,
}
"""The HTTP status of each code."""

# Subclasses come first, because an error gets the code of the first class that it matches.
_CODES: tuple[tuple[type[errors.LorebindError], str], ...] = (
    (errors.MissingVariableError, "not_configured"),
    (errors.ConfigurationError, "invalid_request"),
    (errors.TenantRequiredError, "tenant_required"),
    (errors.UsageError, "invalid_request"),
    (errors.NotIngestedError, "not_ingested"),
    (errors.NotFoundError, "not_found"),
    (errors.MissingDependencyError, "not_installed"),
    (errors.PluginError, "not_installed"),
    (errors.DocumentChangedError, "document_changed"),
    (errors.SourceError, "source_failed"),
    (errors.EmbedderError, "embedder_failed"),
    (errors.RerankerError, "reranker_failed"),
    (errors.IndexMismatchError, "index_mismatch"),
    (errors.ReadOnlyError, "forbidden"),
    (errors.StoreError, "store_unavailable"),
    (errors.IngestRunningError, "ingest_running"),
    (errors.IngestRefusedError, "mass_delete_refused"),
    (errors.RateLimitError, "rate_limited"),
    (errors.ModelError, "model_failed"),
    (errors.ToolError, "tool_failed"),
    (errors.ThreadRefusedError, "thread_refused"),
)

RETRY_SECONDS = 5
"""The default value of `Retry-After`."""


@dataclass
class ProblemError(Exception):
    """An error that is answered with a problem document."""

    code: str
    detail: str
    more: Mapping[str, Any] = field(default_factory=dict)
    """Additional members of the document."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> int:
        return STATUS[self.code]

    def document(self, instance: str = "") -> dict[str, Any]:
        """Return the members of RFC 9457, `code`, and the additional members."""
        return {
            "type": "about:blank",
            "title": self.code.replace("_", " "),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **({"instance": instance} if instance else {}),
            **self.more,
        }

    def response(self, instance: str = "") -> Response:
        """Return the answer, below `/v1/` in OpenAI's shape."""
        from starlette.responses import Response  # workers have errors of runs, but no answers

        if instance.startswith(OPENAI):
            status, data, kind = *openai_error(self), "application/json"
        else:
            status, data, kind = self.status, self.document(instance), MEDIA_TYPE
        body = json.dumps(data, ensure_ascii=True).encode()
        return Response(body, status, dict(self.headers), kind)


def openai_error(problem: ProblemError) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an error as OpenAI's clients read it."""
    status = 400 if problem.status in (413, 415, 422) else problem.status
    errors = problem.more.get("errors") or [{}]
    details = [error["message"] for error in errors if "message" in error]
    param = errors[0].get("pointer", "").removeprefix("/").replace("/", ".")
    error = {
        "message": "; ".join(details) or problem.detail,
        "type": _OPENAI_TYPES.get(status, "server_error" if status >= 500 else _INVALID),
        "param": param or None,
        "code": problem.more.get("openai_code", problem.code),
    }
    return status, {"error": error}


def problem_of(error: Exception) -> ProblemError:
    """Return the problem document of an error; the text of Lorebind's includes a suggested fix."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, errors.TaskError):
        return _of_task(error)
    if not isinstance(error, errors.LorebindError):
        detail = "this is a bug in Lorebind or in the project's code; the server's log has details"
        return ProblemError("internal_error", detail)
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    more = _suggestions(error)
    headers: dict[str, str] = {}
    if isinstance(error, errors.ConfigurationError) and code == "invalid_request":
        more["errors"] = [
            {"pointer": problem.file, "message": problem.message, "hint": problem.hint}
            for problem in error.problems
        ]
        return ProblemError(code, "the request is not valid; see errors", more)
    if isinstance(error, errors.UsageError):
        more["errors"] = [
            {"pointer": pointer(part.at), "message": str(part), "hint": ""}
            for part in error.all or [error]
        ]
    elif isinstance(error, errors.RateLimitError):
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    elif code in ("ingest_running", "store_unavailable"):
        headers["Retry-After"] = str(RETRY_SECONDS)
    return ProblemError(code, str(error), more, headers)


def _of_task(error: errors.TaskError) -> ProblemError:
    """Return the problem of a failed task: an outage, or else the failure of the task."""
    about = {"task": error.task, "path": error.path, "thread_id": error.thread_id}
    more = about | _suggestions(error)
    cause = error.__cause__
    # Wrong usage within a task is not a mistake in the request.
    if isinstance(cause, errors.LorebindError):
        met = problem_of(cause)
        if met.code not in _OF_REQUESTS:
            return ProblemError(met.code, str(error), more, met.headers)
    return ProblemError("task_failed", str(error), more)


def _suggestions(error: errors.LorebindError) -> dict[str, Any]:
    """Return the member for the commands in the detail, if there are any."""
    commands = [{"command": item.command, "text": str(item)} for item in error.suggestions]
    return {"suggestions": commands} if commands else {}


_OF_REQUESTS = ("invalid_request", "not_found", "thread_refused")
