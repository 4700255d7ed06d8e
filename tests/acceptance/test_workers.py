"""Ingests whose texts are embedded by workers: processes that stop, hang, die and come back."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from lorebind import Project
from lorebind.server.state.runs import RequestedRuns
from lorebind.server.state.tables import open_state
from lorebind_knowledge.records import BatchCounts
from lorebind_knowledge.scale.pool import VERSION
from tests.app import slow_embedder
from tests.app.forked_python import CONSTANTS
from tests.postgres import Server
from tests.processes import connections, memory_peak
from tests.torture.at_work import Processes, Running, until

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops by a signal of POSIX"),
    pytest.mark.enable_socket,
]

DOCUMENTS, BATCH = 60, 4
TEXT = "The tour {} leaves at nine."


def declarations(**more: Any) -> dict[str, Any]:
    return {
        "name": "shop",
        "embedders": [
            {
                "id": "slow",
                "provider": "langchain",
                "class": "slow_embedder:Slow",
                "batch_size": BATCH,
                "max_concurrent": 4,
                "retry": {"attempts": 1},
            }
        ],
        "vector_dbs": [
            {"id": "pg", "type": "pgvector", "config": {"dsn": "{{ .env.PG_DSN }}"}},
        ],
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "docs/*.md"}]}
        ],
        "extensions": [{"provider": "prometheus", "textfile": "metrics.prom"}],
    } | more


LIMITED = """

class TooManyError(Exception):
    status_code = 429
    headers = {"retry-after": "0.05"}


class Slow(Slow):
    def embed_documents(self, texts):
        if any("poison" in text for text in texts):
            raise ValueError("poison")
        if most := int(os.environ.get("LIMITED", 0)):
            with open("limited.txt", "a") as calls:
                calls.write(".")
                if calls.tell() <= most:
                    raise TooManyError
        return super().embed_documents(texts)
"""


class Shop:
    """A project whose ingests and workers run in processes of their own."""

    def __init__(self, root: Path, processes: Processes, dsn: str) -> None:
        self.root, self._processes = root, processes
        self.log = root / "embedded.jsonl"
        self.variables: dict[str, object] = {"PG_DSN": dsn, "SLOW_LOG": self.log, "SLOW_GATE": ""}
        self.variables["SLOW_SECONDS"] = 0
        (root / "docs").mkdir()
        for number in range(DOCUMENTS):
            self.add(f"{number:03}.md")
        source = Path(slow_embedder.__file__).read_text()
        (root / "slow_embedder.py").write_text(source + LIMITED)
        self.declare(ingestion={"engine": "distributed"})

    def add(self, name: str) -> None:
        (self.root / "docs" / name).write_text(TEXT.format(name))

    def declare(self, **more: Any) -> None:
        (self.root / "lorebind.yaml").write_text(yaml.safe_dump(declarations(**more)))

    def ingest(self, *options: str, **constants: object) -> Running:
        return self._run("knowledge", "ingest", "docs", *options, **constants)

    def worker(self, *options: str, **constants: object) -> Running:
        """Start a worker, and wait until it is ready."""
        running = self._run("worker", *options, **constants)
        until(lambda: "waiting for texts" in running.printed or running.code() is not None)
        return running

    def _run(self, *arguments: str, **constants: object) -> Running:
        """Run a command with other values of constants in `scale`, such as `pool__VERSION`."""
        values = {
            f"lorebind_knowledge.scale.{name.replace('__', ':')}": value
            for name, value in constants.items()
        }
        variables = {**self.variables, CONSTANTS: json.dumps(values)}
        return self._processes.lorebind(self.root, *arguments, **variables)

    def close_gate(self) -> None:
        """Let each call of the embedder wait from now on, until `open_gate`."""
        self.variables["SLOW_GATE"] = self.root / "gate"

    def open_gate(self) -> None:
        (self.root / "gate").write_bytes(b"x" * 10_000)

    @property
    def calls(self) -> list[list[str]]:
        """The texts of each call of the embedder, in any process."""
        return slow_embedder.calls_in(self.log)

    @property
    def embedded(self) -> Counter[str]:
        """How often each text was embedded."""
        return Counter(text for call in self.calls for text in call)

    def contents(self, tenant: str = "default") -> tuple[set[str], list[str]]:
        """Return the ids of all chunks of a tenant, and the answers to a question."""
        with self.opened() as loaded:
            project = loaded.for_tenant(tenant)
            kb = project.knowledge_base("docs")
            ids = {chunk.id for doc in kb.documents() for chunk in kb.chunks(doc.id)}
            matches = project.query("docs", "When does the tour 007.md leave?").matches
            return ids, [match.text for match in matches]

    @contextmanager
    def opened(self) -> Iterator[Project]:
        """Open the project in this process."""
        environ = {name: str(value) for name, value in self.variables.items()}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            patch.syspath_prepend(str(self.root))
            with Project.load(self.root, environ=environ) as project:
                yield project


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    started = Processes(tmp_path_factory.mktemp("printed"))
    yield started
    started.end()


@pytest.fixture
def shop(tmp_path: Path, processes: Processes, dsn: str) -> Shop:
    return Shop(tmp_path, processes, dsn)


def test_two_workers_embed_each_text_once(
    shop: Shop,
    tmp_path_factory: pytest.TempPathFactory,
    processes: Processes,
    new_dsn: Callable[[], str],
) -> None:
    """The index is the one that a single process makes."""
    workers = [shop.worker(), shop.worker()]
    ingested(shop.ingest())
    assert set(shop.embedded.values()) == {1}
    assert len(shop.embedded) == DOCUMENTS

    alone = Shop(tmp_path_factory.mktemp("alone"), processes, new_dsn())
    alone.declare()
    ingested(alone.ingest())
    assert shop.contents() == alone.contents()
    for worker in workers:
        ended(worker)


def test_other_stores_tenants_and_sparse_terms(
    shop: Shop,
    tmp_path_factory: pytest.TempPathFactory,
    processes: Processes,
) -> None:
    """Workers embed for any vector database and tenant, and make vectors of both kinds."""
    (kb,) = declarations()["knowledge_bases"]
    more = {"knowledge_bases": [kb | {"sparse": "local"}]}
    qdrant = {"id": "q", "type": "qdrant", "config": {"path": "qdrant"}}
    alone = Shop(tmp_path_factory.mktemp("alone"), processes, "")
    alone.declare(vector_dbs=[qdrant], **more)
    shared = {"catalog": {"dsn": "{{ .env.PG_DSN }}"}}
    shop.declare(ingestion={"engine": "distributed"}, vector_dbs=[qdrant | shared], **more)
    worker = shop.worker()
    for runs in (shop, alone):
        printed = ingested(runs.ingest("--tenant", "acme", "-o", "json"))
        report = json.loads(printed[printed.index("{") :])  # a slow machine prints progress before
        assert report["terms_added"] == DOCUMENTS
    assert shop.contents("acme") == alone.contents("acme")
    assert set(shop.embedded.values()) == {1}
    ended(worker)


def test_a_worker_that_runs_once(shop: Shop) -> None:
    """It ends when nothing waits; the ingest embeds the rest by itself."""
    shop.close_gate()
    ingest = shop.ingest(pool___ALONE_SECONDS=0.5)
    worker = shop.worker("--once", "--concurrency", "1")
    shop.open_gate()
    assert worker.result()[0] == 0, worker.printed
    code, printed = ingest.result()
    assert code == 0, printed
    assert set(shop.embedded.values()) == {1}
    assert len(shop.embedded) == DOCUMENTS


def test_without_a_worker_the_ingest_embeds_by_itself(shop: Shop) -> None:
    printed = ingested(shop.ingest(pool___ALONE_SECONDS=0.5), alone=True)
    assert f"the ingest itself embedded {DOCUMENTS} texts; start workers with" in printed
    assert set(shop.embedded.values()) == {1}
    assert len(shop.contents()[0]) == DOCUMENTS


def test_a_worker_that_is_told_to_stop(shop: Shop) -> None:
    """It ends the call in hand, whose texts are not embedded again.

    Meanwhile, any process sees its slot, and the batches that wait for one.
    """
    shop.close_gate()
    first = shop.worker("--concurrency", "1")
    ingest = shop.ingest()
    until(lambda: len(shop.calls) == 1)
    with shop.opened() as project:
        (counts,) = project.knowledge.overview().batches.values()
    assert counts == BatchCounts("langchain/Slow", waiting=1, running=1, slots=1)
    first.terminate()
    second = shop.worker("--concurrency", "1")
    until(lambda: len(shop.calls) == 2)
    shop.open_gate()
    assert first.result()[0] == 0, first.printed
    ingested(ingest)
    assert set(shop.embedded.values()) == {1}
    assert len(shop.embedded) == DOCUMENTS
    ended(second)


def test_a_worker_that_is_suspended(shop: Shop) -> None:
    """Another one repeats its call. When it goes on, it registers again and embeds other texts."""
    shop.close_gate()
    first = shop.worker("--concurrency", "1")
    ingest = shop.ingest()
    until(lambda: len(shop.calls) == 1)
    first.stop()
    shop.open_gate()
    second = shop.worker("--concurrency", "1")
    ingested(ingest)
    assert sum(shop.embedded.values()) <= DOCUMENTS + BATCH
    ended(second)
    with psycopg.connect(str(shop.variables["PG_DSN"]), autocommit=True) as db:
        ((schema,),) = db.execute("select current_schema()").fetchall()
        db.execute(f"delete from {schema}_queue.procrastinate_workers")  # as others do later
    first.go_on()
    shop.add("late.md")
    ingested(shop.ingest())
    assert sum("late.md" in text for text in shop.embedded.elements()) == 1
    ended(first)


def test_a_worker_of_another_version(shop: Shop) -> None:
    """It takes no batch, and says so once, with the names of knowledge base and embedder."""
    other = shop.worker(pool__VERSION="0.0.9", work__VERSION="0.0.9", worker___REFUSE_SECONDS=0.1)
    ingest = shop.ingest(pool___ALONE_SECONDS=5)
    until(lambda: "does not embed" in other.printed)
    ingested(ingest, alone=True)
    assert set(shop.embedded.values()) == {1}
    line = (
        "does not embed texts of knowledge base 'docs' for embedder langchain/Slow: "
        f"they wait for workers of Lorebind {VERSION}, and this is 0.0.9"
    )
    assert other.printed.count(line) == 1, other.printed
    ended(other)


def test_texts_of_another_embedder(shop: Shop) -> None:
    other = shop.worker(worker___REFUSE_SECONDS=0.1)
    shop.declare(
        ingestion={"engine": "distributed"}, embedders=[{"id": "h", "provider": "hashing"}]
    )
    ingest = shop.ingest(pool___ALONE_SECONDS=5)
    until(lambda: "does not embed" in other.printed)
    assert "the project of this worker has no such embedder" in other.printed
    ingested(ingest, alone=True)
    ended(other)


def test_what_a_worker_needs(shop: Shop, postgres: Server) -> None:
    """A busy worker needs at most 200 MB and 5 connections."""
    worker = shop.worker("--concurrency", "4")
    ingest = shop.ingest()
    most = 0
    while ingest.code() is None:
        most = max(most, connections(worker.process, postgres.port))
        time.sleep(0.005)
    ingested(ingest)
    assert 2 <= most <= 5
    assert memory_peak(worker.process) <= 200_000
    ended(worker)


def test_what_a_worker_with_an_ingest_needs(
    shop: Shop, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more, although it writes the index too. The ingest was requested elsewhere."""
    shop.declare(ingestion={"engine": "distributed"}, server={"ingests": "workers"})
    worker = shop.worker()
    monkeypatch.setenv("PG_DSN", str(shop.variables["PG_DSN"]))
    monkeypatch.syspath_prepend(str(shop.root))
    most = 0
    with Project.load(shop.root) as project:
        state = open_state(project.config)
        runs = RequestedRuns(state, project.name, project.config.digest)
        namespace = project.knowledge_base("docs").handle.namespace
        request = {"action": "ingest", "workflow": None}
        run, _ = runs.request(namespace, request, for_workers=True)
        while (latest := runs.find(namespace, run.run_id)) and latest.finished_at is None:
            most = max(most, connections(worker.process, postgres.port))
            time.sleep(0.005)
        state.close()
    assert latest is not None
    assert latest.status == "completed", latest
    assert 3 <= most <= 5
    assert memory_peak(worker.process) <= 200_000
    assert set(shop.embedded.values()) == {1}
    ended(worker)


def test_an_embedder_that_fails(shop: Shop) -> None:
    """The ingest fails with the error that the embedder raised in the worker."""
    worker = shop.worker()
    shop.add("poison.md")
    code, printed = shop.ingest().result()
    assert code == 1
    assert "embedder langchain/Slow failed: ValueError: poison" in printed
    failed = 'knowledge_batches_failed_total{embedder="langchain/Slow"} 1.0'
    assert failed in (shop.root / "metrics.prom").read_text()
    (shop.root / "docs" / "poison.md").unlink()
    ingested(shop.ingest())
    ended(worker)


def test_a_provider_that_limits_its_callers(shop: Shop) -> None:
    """Its answer is no failure, however often it comes: the batch waits as long as it is asked to.

    Texts of other embedders do not wait for it.
    """
    shop.variables["LIMITED"] = 8  # calls, more than a worker may try a batch
    worker = shop.worker("--concurrency", "1")
    ingested(shop.ingest())
    assert set(shop.embedded.values()) == {1}
    assert len(shop.embedded) == DOCUMENTS
    ended(worker)


def ingested(ingest: Running, *, alone: bool = False) -> str:
    """Check that an ingest has ended well, and return what it has printed.

    Args:
        ingest: the ingest.
        alone: whether it had to embed texts by itself.
    """
    code, printed = ingest.result()
    assert code == 0, printed
    assert ("no worker was there" in printed) == alone, printed
    return printed


def ended(worker: Running) -> None:
    """Stop a worker, and check that it ends well."""
    worker.terminate()
    assert worker.result()[0] == 0, worker.printed
