"""The classification of providers' exceptions, whichever library raises them."""

from __future__ import annotations

import json
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import httpx
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import EmbedderError, StoreError
from lorebind_knowledge.resilience.failures import (
    SHORTER_TEXTS,
    UnreadableAnswerError,
    classify,
    retry_after,
)

NOW = 1_700_000_000.0


class StatusError(Exception):
    """An exception in the form of OpenAI's and Anthropic's clients."""

    def __init__(self, status: int, message: str = "", headers: Any = None) -> None:
        super().__init__(message)
        self.status_code = status
        self.response = httpx.Response(status, headers=headers)


class APIConnectionError(Exception):
    """An exception named like that of OpenAI's client; it derives from no known class."""


class ReadTimeoutError(Exception):
    """An exception named like those of botocore and urllib3."""


def _raised(error: Exception, cause: Exception | None) -> Exception:
    try:
        raise error from cause
    except type(error) as caught:
        return caught


def _with(**attributes: Any) -> Exception:
    error = Exception("failed")
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, "final", "model and config"),
        (401, "final", "check api_key"),
        (402, "final", "billing"),
        (403, "final", "rights"),
        (404, "final", "model and base_url"),
        (408, "again", "batch_size"),
        (409, "again", ""),
        (413, "smaller", "chunking.size"),
        (422, "final", "model and config"),
        (429, "again", "requests_per_minute"),
        (500, "again", "try again later"),
        (503, "again", "try again later"),
        (529, "again", "try again later"),
    ],
)
def test_statuses(status: int, kind: str, advice: str) -> None:
    """Transient failures are retried; others are final, with a suggested fix."""
    failure = classify(StatusError(status))
    assert failure.kind == kind
    assert advice in failure.advice


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Requested 384772 tokens, max 300000 tokens per request"),
        (400, "Invalid 'input': array too long. Expected an array with maximum length 2048"),
        (400, "total number of texts must be at most 96 texts - received 100"),
        (400, "Too many tokens overall, split into smaller batches."),
        (400, "Too many inputs. The max number of inputs is 16."),
        (400, "15 instance(s) is allowed per prediction. Actual: 20"),
        (422, "batch size 64 > maximum allowed batch size 32"),
        (429, "Request too large for text-embedding-3-small on tokens per min (TPM): Limit 1000"),
    ],
)
def test_batches_that_are_too_large(status: int, message: str) -> None:
    """When a provider refuses the size of a batch, a smaller one is sent."""
    assert classify(StatusError(status, message)).kind == "smaller"


@pytest.mark.parametrize(
    ("status", "message", "kind", "advice"),
    [
        (400, "This model's maximum context length is 8192 tokens", "final", SHORTER_TEXTS),
        (500, "input is too large to process", "final", SHORTER_TEXTS),
        (429, "Rate limit reached on tokens per min: Limit 9, Used 8, Requested 2", "again", None),
        (429, "Too many requests", "again", None),
        (429, "{'code': 'insufficient_quota'}", "final", "billing"),
    ],
)
def test_words(status: int, message: str, kind: str, advice: str | None) -> None:
    """Messages distinguish an over-long text, a temporary limit and a spent account."""
    failure = classify(StatusError(status, message))
    assert failure.kind == kind
    assert advice is None or advice in failure.advice


@pytest.mark.parametrize(
    "error",
    [
        _with(status_code=429),
        _with(http_status=429),
        _with(status=429),
        _with(code=429),
        _with(code=HTTPStatus.TOO_MANY_REQUESTS),
        _with(response=httpx.Response(429)),
        _with(response={"ResponseMetadata": {"HTTPStatusCode": 429}}),
        _raised(EmbedderError("embedder x failed"), StatusError(429)),
        _raised(EmbedderError("x"), _raised(ValueError("y"), StatusError(429))),
        TimeoutError(),
        ConnectionResetError(),
        APIConnectionError(),
        ReadTimeoutError(),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut off"),
        psycopg.OperationalError("the server closed the connection"),
        _raised(StoreError("x"), psycopg.errors.DeadlockDetected()),
        _raised(EmbedderError("x"), APIConnectionError()),
        _raised(EmbedderError("x"), json.JSONDecodeError("Expecting value", "", 0)),
        UnreadableAnswerError("x"),
    ],
    ids=repr,
)
def test_what_passes(error: Exception) -> None:
    """Limits, timeouts and lost connections are recognized in all their forms."""
    assert classify(error).kind == "again"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such option"),
        FileNotFoundError("model.bin"),
        KeyError("x"),
        EmbedderError("returned an array of shape (1, 2)"),
        _with(code="invalid_api_key"),
        _with(code=7, status="PERMISSION_DENIED"),
        _with(status_code=None),
        _with(response=None),
        _with(response={"other": 1}),
        RecursionError(),
    ],
    ids=repr,
)
def test_what_does_not_pass(error: Exception) -> None:
    """An exception that has no status and is not a lost connection is final."""
    assert classify(error).kind == "final"


def test_what_was_being_handled_counts() -> None:
    """An exception without a cause is judged by the exception that was being handled."""
    error = ValueError("no vectors")
    error.__context__ = StatusError(503)
    assert classify(error).kind == "again"
    error.__suppress_context__ = True
    assert classify(error).kind == "final"


def test_errors_that_go_round_in_circles() -> None:
    """A circular chain of exceptions is inspected only once."""
    error, other = ValueError("a"), ValueError("b")
    error.__cause__, other.__cause__ = other, error
    assert classify(error).kind == "final"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"Retry-After": "0"}, 0),
        ({"Retry-After": formatdate(NOW + 90, usegmt=True)}, 90),
        ({"Retry-After": formatdate(NOW - 90, usegmt=True)}, 0),
        ({"Retry-After": "Tue, 14 Nov 2023 22:14:20"}, 60),
        ({"Retry-After": "Tue, 14 Nov 2023 22:14:20 -0000"}, 60),
        ({"Retry-After": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
        ({"Retry-After": "9", "retry-after-ms": "1500"}, 1.5),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
        (None, None),
    ],
)
def test_retry_after(headers: dict[str, str] | None, seconds: float | None) -> None:
    """Seconds and dates are understood in any mapping; nonsense is ignored."""
    assert retry_after(headers, NOW) == seconds
    assert retry_after(httpx.Headers(headers), NOW) == seconds


def test_the_date_of_the_answer_counts() -> None:
    """A date is compared with the answer's own date, because clocks differ."""
    headers = {"Retry-After": formatdate(NOW + 90), "Date": formatdate(NOW)}
    assert retry_after(headers) == 90
    assert retry_after({"Retry-After": formatdate(NOW)}) == 0


def test_the_wait_is_found_on_either_object() -> None:
    """Headers are read from the exception's response or from the exception itself."""
    assert classify(StatusError(429, headers={"Retry-After": "7"})).wait == 7
    assert classify(_with(status=503, headers={"Retry-After": "7"})).wait == 7
    metadata = {"HTTPStatusCode": 503, "HTTPHeaders": {"retry-after": "7"}}
    assert classify(_with(response={"ResponseMetadata": metadata})).wait == 7


@given(st.text())
def test_any_header_is_harmless(value: str) -> None:
    """For any header value, the wait is a finite number of seconds or None."""
    seconds = retry_after({"retry-after": value}, NOW)
    assert seconds is None or 0 <= seconds < float("inf")
