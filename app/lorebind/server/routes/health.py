"""`/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from lorebind.server.problems import ProblemError
from lorebind.server.server import Reader, TheServer
from lorebind_config.plugins import import_extra

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Check that the process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(server: TheServer) -> dict[str, str]:
    """Check that the server is ready: knowledge bases with `ingest: on_start` are ingested."""
    if not server.is_ready:
        what = "about to stop" if server.is_draining else "starting"
        raise ProblemError("draining", f"the server is {what}", headers={"Retry-After": "1"})
    return {"status": "ready"}


@router.get("/metrics", response_class=Response)
async def metrics(server: TheServer, _: Reader) -> Any:
    """Return metrics for Prometheus, summed over all tenants.

    Knowledge bases that were created over the API are counted together, as `api`.
    """
    client = import_extra("prometheus_client", extra="telemetry", purpose="/metrics")
    assert server.prometheus is not None
    text = client.generate_latest(server.prometheus.registry)
    return Response(text, media_type=client.CONTENT_TYPE_LATEST)
