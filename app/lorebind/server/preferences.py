"""The headers `Prefer` and `Idempotency-Key` of requests that begin runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, NamedTuple

from fastapi import Depends, Header

from lorebind.server.problems import ProblemError

if TYPE_CHECKING:
    from lorebind.server.state.runs import KeyTakenError

_MOST_SECONDS = 25
"""Maximum seconds that a request waits for its run, as `Prefer: wait` asks."""
_WAIT = f"`wait=SECONDS`, at most {_MOST_SECONDS}: answer when the run has ended."
RESPOND_ASYNC = "respond-async"
_ASYNC = re.compile(rf"(?:^|[,\s]){RESPOND_ASYNC}(?:$|[,;\s])", re.IGNORECASE)

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        description="Any text. Within 24 hours, the same request with the same key runs once.",
    ),
]
PreferWait = Annotated[str | None, Header(alias="Prefer", description=_WAIT)]


def wait_seconds(prefer: str | None) -> float:
    """Return how long the client prefers to wait for the end of a run."""
    match = re.search(r"(?:^|[,;\s])wait=(\d+)", prefer or "")
    return min(float(match[1]), _MOST_SECONDS) if match else 0


class Background(NamedTuple):
    """The preferences of a client for a run in the background."""

    seconds: float
    """How long to wait for its end before the answer."""
    key: str | None


async def _in_background(
    prefer: Annotated[
        str | None,
        Header(description=f"`{RESPOND_ASYNC}`: run in the background. With it, {_WAIT}"),
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> Background | None:
    if _ASYNC.search(prefer or ""):
        return Background(wait_seconds(prefer), idempotency_key)
    if idempotency_key is not None:  # it would have no effect
        detail = f"an Idempotency-Key of a workflow needs the header Prefer: {RESPOND_ASYNC}"
        raise ProblemError("invalid_header", detail)
    return None


InBackground = Annotated[Background | None, Depends(_in_background)]
"""None if the client waits for the run, which ends with the connection."""


def key_taken(error: KeyTakenError) -> ProblemError:
    detail = "this Idempotency-Key was used with another request; choose another one"
    return ProblemError("idempotency_mismatch", detail, {"run_id": error.run.run_id})
