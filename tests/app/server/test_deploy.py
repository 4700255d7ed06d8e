"""The files in `deploy`: commands, ports, routes and variables in them are ours, and they run."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml
from fastapi.routing import APIRoute
from typer.main import get_command

from lorebind.cli.commands import app
from lorebind.cli.serving import serve
from lorebind.server.middleware.guard import OPEN
from lorebind.server.routes.overview import health
from lorebind_config.reading.loading import load_project
from tests.torture.at_work import Processes

from .conftest import serving

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
PAGE = DEPLOY.parent / "docs" / "how-to" / "deployment.md"
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
POSTGRES = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PGDATA"}
"""The variables that the image of PostgreSQL reads."""
VARIABLES = {"DATABASE_URL"}
"""The variables that the project reads."""


def resources() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        yield from yaml.safe_load_all(path.read_text())


def compose() -> dict[str, Any]:
    described: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return described


def dockerfile() -> dict[str, list[str]]:
    """Return the arguments of each instruction, by its name."""
    instructions: dict[str, list[str]] = {}
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition(" ")
            instructions.setdefault(name, []).append(rest)
    return instructions


def parts(value: Any, key: str) -> Iterator[Any]:
    """Yield the values of a key at any depth."""
    if isinstance(value, dict):
        if key in value:
            yield value[key]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from parts(item, key)


def containers() -> Iterator[dict[str, Any]]:
    """Yield the containers of the manifests that run Lorebind."""
    for container in [item for group in parts(list(resources()), "containers") for item in group]:
        if "pgvector" not in container["image"]:
            yield container


def commands() -> list[list[str]]:
    """Return the arguments of all calls of `lorebind` in the files and on their page."""
    services = [service for service in compose()["services"].values() if "build" in service]
    calls = [service["command"] for service in services]
    calls += [container["args"] for container in containers()]
    image = dockerfile()
    assert image["ENTRYPOINT"] == ['["lorebind"]']
    calls += [json.loads(image["CMD"][0])]
    calls += [shlex.split(line)[1:] for line in image["RUN"] if line.startswith("lorebind ")]
    run = r"^(?:docker compose run --rm server|kubectl exec \S+ -- lorebind) (.*)"
    return calls + [shlex.split(call) for call in re.findall(run, PAGE.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_commands_and_options_exist(arguments: list[str]) -> None:
    """Each command parses with its arguments."""
    command: Any = get_command(app)
    context = None
    while hasattr(command, "commands"):
        context = command.make_context("lorebind", arguments, parent=context)
        _, command, arguments = command.resolve_command(context, arguments)
    command.make_context("lorebind", list(arguments), parent=context)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_valid(path: Path) -> None:
    """They have the schema of Kubernetes, without unknown fields, and their references exist."""
    kubernetes = pytest.importorskip("kubernetes_validate", reason="it is in the extra dev")
    for resource in yaml.safe_load_all(path.read_text()):
        kubernetes.validate(resource, kubernetes.latest_version(), strict=True)
        if resource["kind"] == "Service":
            ports = {port["name"] for group in parts(list(resources()), "ports") for port in group}
            targets = {port.get("targetPort", port["name"]) for port in resource["spec"]["ports"]}
            assert targets <= ports
            assert list(resource["spec"]["selector"].items()) in [
                list(labels.items()) for labels in parts(list(resources()), "matchLabels")
            ]
        for selector in parts(resource, "matchLabels"):
            assert selector in list(parts(resource, "labels"))
        for spec in parts(resource, "spec"):
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in claims(resource)}
            for container in spec.get("containers", []):
                assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def claims(resource: dict[str, Any]) -> list[dict[str, Any]]:
    return [claim for group in parts(resource, "volumeClaimTemplates") for claim in group]


def test_services_of_compose() -> None:
    """They refer to services and volumes that are there, and pass no secret by value."""
    described = compose()
    services = described["services"]
    for service in services.values():
        assert service.get("depends_on", {}).keys() <= services.keys()
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert volumes <= described["volumes"].keys()
        for name, value in service["environment"].items():
            if name.endswith(("PASSWORD", "URL")):
                assert "${POSTGRES_PASSWORD:?}" in value


def test_ports_and_routes() -> None:
    """The server listens on its default port, and probes ask routes that need no token."""
    (port,) = (p.default for p in inspect.signature(serve).parameters.values() if p.name == "port")
    assert dockerfile()["EXPOSE"] == [str(port)]
    assert compose()["services"]["server"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    (ports,) = (container["ports"] for container in containers() if "ports" in container)
    assert [listed["containerPort"] for listed in ports] == [port]
    probes = [probe for container in containers() for probe in parts(container, "httpGet")]
    assert {probe["port"] for probe in probes} == {listed["name"] for listed in ports}
    (*_, program) = compose()["services"]["server"]["healthcheck"]["test"]
    (path,) = re.findall(rf"127\.0\.0\.1:{port}(/\w+)", program)
    paths = {path, *(probe["path"] for probe in probes)}
    assert paths == {"/readyz", "/healthz"}
    assert paths <= OPEN
    assert paths <= {route.path for route in health.routes if isinstance(route, APIRoute)}


def test_variables() -> None:
    """The project reads exactly the variables that the files set, each from a secret."""
    unset = load_project(DEPLOY, environ={}).unset
    assert {name for missing in unset for name in VARIABLES if name in str(missing)} == VARIABLES
    assert not load_project(DEPLOY, environ=dict.fromkeys(VARIABLES, "x")).unset
    for service in compose()["services"].values():
        expected = VARIABLES if "build" in service else POSTGRES - {"PGDATA"}
        assert service["environment"].keys() == expected
    for container in containers():
        assert {variable["name"] for variable in container["env"]} == VARIABLES
    keys = set()
    for listed in [each for group in parts(list(resources()), "env") for each in group]:
        assert listed["name"] in POSTGRES | VARIABLES
        if listed["name"].endswith(("PASSWORD", "URL")):
            assert listed.keys() == {"name", "valueFrom"}
            reference = listed["valueFrom"]["secretKeyRef"]
            assert reference["name"] == "lorebind"
            keys.add(reference["key"])
    assert set(re.findall(r"--from-literal=(\w+)=", PAGE.read_text())) == keys


def test_the_image() -> None:
    """It installs extras that exist, and has a numeric user, as `runAsNonRoot` needs."""
    (install,) = (line for line in dockerfile()["RUN"] if line.startswith("pip install "))
    (extras,) = re.findall(r"'lorebind\[([\w,]+)\]'", install)
    assert set(extras.split(",")) <= set(metadata("lorebind").get_all("Provides-Extra") or ())
    assert {"server", "postgres", "scale"} <= set(extras.split(","))
    assert dockerfile()["USER"] == ["65534"]


@pytest.mark.parametrize(
    "name", ["Dockerfile", "lorebind.yaml", "compose.yaml", "kubernetes/server.yaml"]
)
def test_the_page_shows_the_files(name: str) -> None:
    """Their text on the page is that of the files."""
    assert f"\n{(DEPLOY / name).read_text()}```" in PAGE.read_text()


@pytest.mark.enable_socket
def test_the_project_runs(
    tmp_path: Path, dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A worker embeds what an ingest reads, the server searches it, and no container writes."""
    folder = copytree(DEPLOY, tmp_path / "shop")
    before = sorted(folder.rglob("*"))
    processes = Processes(tmp_path_factory.mktemp("printed"))
    try:
        worker = processes.lorebind(folder, "worker", "--concurrency", "2", DATABASE_URL=dsn)
        code, printed = processes.lorebind(folder, "ingest", DATABASE_URL=dsn).result()
        assert code == 0, printed
        assert "no worker was there" not in printed
        with serving(folder, DATABASE_URL=dsn) as server, server.client() as api:
            ready = api.get("http://localhost/readyz", headers={"Host": "10.0.0.7:8642"})
            assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
            query = {"query": "How long can I return an item?"}
            answer = api.post("/knowledge-bases/handbook/query", json=query)
            assert "within 30 days" in answer.json()["matches"][0]["text"]
        worker.terminate()
        assert worker.result()[0] == 0, worker.printed
    finally:
        processes.end()
    assert sorted(folder.rglob("*")) == before
