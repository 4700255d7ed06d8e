"""The example of an engine for Ray passes the conformance kit, on a cluster of this machine."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lorebind.plugin import Engine
from lorebind_knowledge.testing import EngineConformance

ray = pytest.importorskip("ray", reason="needs ray, which no extra installs: pip install ray")
EXAMPLES = Path(__file__).parents[2] / "examples" / "extending"

pytestmark = pytest.mark.enable_socket


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(
        num_cpus=1, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(EXAMPLES)}}
    )
    yield
    ray.shutdown()


class TestRay(EngineConformance):
    @pytest.fixture
    def make_engine(self, cluster: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Engine]:
        monkeypatch.syspath_prepend(str(EXAMPLES))
        engine = importlib.import_module("ray_engine").RayEngine
        catalog = uuid.uuid4().hex
        return lambda: engine(catalog, dead_seconds=0.6)
