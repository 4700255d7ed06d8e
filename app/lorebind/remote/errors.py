"""Convert problem documents back to the errors they were created from."""

from __future__ import annotations

from typing import Any

from lorebind_config import errors
from lorebind_config.errors import LorebindError, Problem


class ServerError(LorebindError):
    """A server cannot be reached, refuses the caller, or has failed."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code
        """The code in the problem document; empty if there was none."""

    @property
    def may_pass(self) -> bool:
        """Whether the server may answer again soon, because it is being restarted."""
        return self.code == "draining"


_KINDS: dict[str, type[LorebindError]] = {
    "not_found": errors.NotFoundError,
    "not_ingested": errors.NotIngestedError,
    "not_installed": errors.MissingDependencyError,
    "document_changed": errors.DocumentChangedError,
    "source_failed": errors.SourceError,
    "embedder_failed": errors.EmbedderError,
    "index_mismatch": errors.IndexMismatchError,
    "reranker_failed": errors.RerankerError,
    "forbidden": errors.ReadOnlyError,
    "store_unavailable": errors.StoreError,
    "ingest_running": errors.IngestRunningError,
    "mass_delete_refused": errors.IngestRefusedError,
    "model_failed": errors.ModelError,
    "thread_refused": errors.ThreadRefusedError,
    "declared_in_yaml": errors.UsageError,
    "document_of_source": errors.UsageError,
    "started_elsewhere": errors.UsageError,
    "precondition_failed": errors.UsageError,
    "tenant_required": errors.TenantRequiredError,
    "too_large": errors.UsageError,
}
"""The errors that consist of a text only; any other code is a `ServerError`."""


def error_of(document: dict[str, Any], retry_after: float = 0) -> LorebindError:
    """Return the error of a problem document.

    Args:
        document: its members.
        retry_after: the seconds until a retry, as given in the answer.
    """
    code, detail = str(document.get("code")), str(document.get("detail"))
    if code == "invalid_request":
        return _invalid(document, detail)
    if code == "rate_limited":
        return errors.RateLimitError(detail, retry_after)
    if "path" in document and "thread_id" in document:
        task, path, thread_id = (str(document[name]) for name in ("task", "path", "thread_id"))
        return errors.TaskError(detail, task=task, path=path, thread_id=thread_id)
    if code == "unauthenticated":
        return ServerError("the server accepts only valid tokens; set LOREBIND_TOKEN to one", code)
    if code in _KINDS:
        return _KINDS[code](detail)
    return ServerError(f"the server says: {detail}", code)


def _invalid(document: dict[str, Any], detail: str) -> LorebindError:
    """Return the error for an invalid argument or an invalid declaration."""
    faults = document.get("errors") or []
    if not faults or [fault.get("message") for fault in faults] == [detail]:
        return errors.UsageError(detail)
    problems = []
    for fault in faults:
        message, hint = str(fault.get("message")), str(fault.get("hint", ""))
        where = str(fault.get("pointer") or fault.get("parameter", ""))
        if where.startswith("/interrupt_before"):  # an unknown task, as for `Project`
            return errors.NotFoundError(f"{message}; {hint}")
        problems.append(Problem(where, 0, 0, message, hint))
    return errors.ConfigurationError(problems)
