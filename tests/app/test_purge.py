"""`lorebind knowledge purge`: data of undeclared knowledge bases is found and removed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lorebind import (
    Event,
    Extension,
    IngestRunningError,
    NotIngestedError,
    Project,
    StoreError,
    tenant,
)
from lorebind_knowledge.index.purging import OrphanedIndex
from lorebind_knowledge.stores.wrapper import StoreCall, StoreWrapper
from tests.bindings.helpers import write

from .forked_python import ForkedPython
from .helpers import DOCUMENTS, PROJECT, Cli, Done, run_forked

RULES = """\
  - id: rules
    sources: [{ type: markdown_glob, path: "rules/*.md" }]
"""
WITHOUT_RULES = PROJECT.replace(RULES, "")
OWN = """\
id: own
tasks: [{ id: t, prompt: x }]
knowledge_bases:
  - { id: rules, sources: [{ type: markdown_glob, path: "rules/*.md" }] }
"""
GONE = OrphanedIndex("file", "rules", "default", "project", documents=1, chunks=1)
NOTHING = "no data is left of knowledge bases that are no longer declared\n"

KEPT = {
    "catalog_schema",
    "catalog_leases",
    "catalog_embeddings",
    "catalog_embedding_sizes",
    "store_spaces",
}
"""Tables that belong to no knowledge base, or contain nothing about its content."""


@pytest.fixture
def gone_cli(ready_cli: Cli) -> Cli:
    """Return a project where `rules` was ingested and is no longer declared."""
    assert WITHOUT_RULES != PROJECT
    ready_cli.write({"lorebind.yaml": WITHOUT_RULES})
    return ready_cli


def contents(root: Path) -> dict[str, list[Any]]:
    """Return all rows of the project's database, by table."""
    with closing(sqlite3.connect(root / ".lorebind" / "lorebind.db")) as db:
        tables = db.execute("select name from sqlite_master where type = 'table'").fetchall()
        return {name: db.execute(f'select * from "{name}"').fetchall() for (name,) in tables}


def rows(root: Path) -> dict[str, int]:
    """Return the number of rows per table of knowledge bases."""
    return {
        name: len(entries)
        for name, entries in contents(root).items()
        if name not in KEPT and not name.startswith("sqlite_")
    }


def purged(cli: Cli, *options: str) -> list[dict[str, Any]]:
    """Return the JSON output of the command."""
    done = cli("knowledge", "purge", "--output", "json", *options)
    assert (done.code, done.err) == (0, "")
    (listed,) = json.loads(done.out).values()
    return list(listed)


def finding(cli: Cli) -> dict[str, str] | None:
    """Return the finding of `doctor` about undeclared data, in a project where nothing fails."""
    done = cli("doctor", "--output", "json")
    assert done.code == 0, done
    details = [
        finding
        for finding in json.loads(done.out)["findings"]
        if finding["part"] == "undeclared knowledge"
    ]
    return details[0] if details else None


def test_it_is_shown_first(gone_cli: Cli) -> None:
    """Without --yes, a table lists the data, and no row of the database changes."""
    before = contents(gone_cli.root)
    done = gone_cli("knowledge", "purge")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split() == [
        "id",
        "vector",
        "database",
        "tenant",
        "scope",
        "documents",
        "chunks",
    ]
    assert lines[2].split() == ["rules", "file", "default", "project", "1", "1"]
    assert lines[3:] == ["nothing was removed; remove it with --yes"]
    with Project.load(gone_cli.root) as project:
        assert project.purge() == [GONE]
        assert asyncio.run(project.apurge(dry_run=True)) == [GONE]
    assert contents(gone_cli.root) == before


def test_it_is_removed(ready_cli: Cli) -> None:
    """With --yes, its vectors, chunks, words, documents and runs are removed."""
    with_both = rows(ready_cli.root)
    ready_cli.write({"lorebind.yaml": WITHOUT_RULES})
    done = ready_cli("knowledge", "purge", "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[2].split()[:2] == ["rules", "file"]
    assert done.out.splitlines()[3:] == ["removed"]
    left = rows(ready_cli.root)
    # Each of `docs` has one chunk, and `rules` had one document.
    assert {name: with_both[name] - left[name] for name in left} == {
        "catalog_batches": 0,
        "catalog_call_rates": 0,
        "catalog_claims": 0,
        "catalog_segments": 1,
        "catalog_postings": 1,
        "catalog_terms": 0,
        "catalog_indexes": 1,
        "catalog_languages": 1,
        "catalog_documents": 1,
        "catalog_added": 0,
        "catalog_excluded": 0,
        "catalog_recognized": 0,
        "catalog_runs": 1,
        "catalog_versions": 1,
        "catalog_chunks": 1,
        "catalog_vectors": 0,
        "store_vectors": 1,
    }
    assert "rules" not in json.dumps(contents(ready_cli.root), default=str)
    assert ready_cli("knowledge", "query", "docs", "-q", "rotate the keys").code == 0
    assert ready_cli("doctor").code == 0


def test_twice_is_once(gone_cli: Cli) -> None:
    """If no data is left, the command says so and changes nothing."""
    assert gone_cli("knowledge", "purge", "--yes").code == 0
    before = contents(gone_cli.root)
    for options in ([], ["--yes"]):
        done = gone_cli("knowledge", "purge", *options)
        assert (done.code, done.out, done.err) == (0, NOTHING, "")
        assert purged(gone_cli, *options) == []
    assert contents(gone_cli.root) == before


def test_for_programs(gone_cli: Cli) -> None:
    """JSON lists existing data under `undeclared`, and removed data under `removed`."""
    whole = {
        "vector_db": "file",
        "kb_id": "rules",
        "tenant": "default",
        "scope": "project",
        "documents": 1,
        "chunks": 1,
    }
    done = gone_cli("knowledge", "purge", "--output", "json")
    assert json.loads(done.out) == {"undeclared": [whole]}
    removed = gone_cli("knowledge", "purge", "--yes", "--output", "json")
    assert json.loads(removed.out) == {"removed": [whole]}


def test_from_python(gone_cli: Cli) -> None:
    """`purge` only lists data unless it is told to remove it, and returns the removed data."""
    with Project.load(gone_cli.root) as project:
        assert project.purge(dry_run=False) == [GONE]
        assert project.purge() == []


def test_nothing_was_ever_ingested(cli: Cli) -> None:
    """Without any ingest, there is no data, and looking for it creates no file."""
    for options in ([], ["--yes"]):
        assert cli("knowledge", "purge", *options).out == NOTHING
    assert not (cli.root / ".lorebind").exists()


def test_of_a_workflow(cli: Cli) -> None:
    """A removed workflow's own knowledge base is purged; the project's of the same id stays."""
    cli.write({"workflows/own.yaml": OWN})
    assert cli("knowledge", "ingest").code == 0
    assert purged(cli) == []
    (cli.root / "workflows" / "own.yaml").unlink()
    (kb,) = purged(cli, "--yes")
    assert (kb["kb_id"], kb["scope"]) == ("rules", "workflow/own")
    assert purged(cli) == []
    assert cli("knowledge", "query", "rules", "-q", "access").code == 0


def test_of_every_tenant(cli: Cli) -> None:
    """Data of all tenants is removed; their data of declared knowledge bases stays."""
    with Project.load(cli.root) as project:
        for name in ("acme", "zenith"):
            with tenant(name):
                project.ingest("rules")
                project.ingest("docs")
    cli.write({"lorebind.yaml": WITHOUT_RULES})
    gone = [replace(GONE, tenant=name) for name in ("acme", "zenith")]
    with Project.load(cli.root) as project:
        with tenant("acme"):
            assert project.purge() == gone
        assert project.purge(dry_run=False) == gone
        assert project.purge() == []
        for name in ("acme", "zenith"):
            with tenant(name):
                assert project.query("docs", "rotate the keys").matches


def test_collections_and_other_projects_are_left_alone(gone_cli: Cli) -> None:
    """Both may be in the same file, and have the same name."""
    other = gone_cli.root / "other"
    write(other, DOCUMENTS)
    parts = {
        "name": "other",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [
            {"id": "file", "type": "sqlite", "config": {"path": "../.lorebind/lorebind.db"}}
        ],
        "knowledge_bases": [
            {"id": "rules", "sources": [{"type": "markdown_glob", "path": "rules/*.md"}]}
        ],
    }
    with Project.build(parts, root=other) as elsewhere, Project.load(gone_cli.root) as project:
        elsewhere.ingest("rules")
        collection = project.collection("rules")
        collection.add_texts(["The cat sleeps."], ids=["cat"])
        assert project.purge(dry_run=False) == [GONE]
        assert elsewhere.query("rules", "access").matches
        assert [document.id for document in collection.similarity_search("cat", k=1)] == ["cat"]
        assert elsewhere.purge() == []


def test_one_that_never_had_a_document(cli: Cli) -> None:
    """Leftovers of a first ingest that failed are removed too."""
    (cli.root / "rules" / "access.md").write_bytes(b"\xff\xfe\xfa")
    assert cli("knowledge", "ingest", "rules").code == 1
    cli.write({"lorebind.yaml": WITHOUT_RULES})
    (kb,) = purged(cli, "--yes")
    assert (kb["kb_id"], kb["chunks"]) == ("rules", 0)
    assert purged(cli) == []
    assert sum(rows(cli.root).values()) == 0


def test_the_embedding_cache_stays(gone_cli: Cli) -> None:
    """If it is declared again, it is rebuilt without embedding anything."""
    assert gone_cli("knowledge", "purge", "--yes").code == 0
    gone_cli.write({"lorebind.yaml": PROJECT})
    with Project.load(gone_cli.root) as project:
        with pytest.raises(NotIngestedError):
            project.query("rules", "access")
        report = project.ingest("rules")
        assert (report.status, report.texts_embedded, report.cache_hits) == ("completed", 0, 1)
        assert project.query("rules", "access").matches


class PurgeMeanwhile(Extension):
    """Runs the command in another process while documents are ingested."""

    def __init__(self, root: Path, forked: ForkedPython) -> None:
        self._root = root
        self._forked = forked
        self.done: list[Done] = []

    def ingest_chunked(self, event: Event) -> None:
        self._purge()

    def ingest_completed(self, event: Event) -> None:
        self._purge()

    def _purge(self) -> None:
        write(self._root, {"lorebind.yaml": WITHOUT_RULES})
        self.done.append(run_forked(self._forked, self._root, "knowledge", "purge", "--yes"))


def test_while_it_is_ingested(ready_cli: Cli, forked: ForkedPython) -> None:
    """It is refused as a second ingest is, and removes nothing; after the ingest, it works."""
    meanwhile = PurgeMeanwhile(ready_cli.root, forked)
    (ready_cli.root / "rules" / "more.md").write_text("# More\n\nAccess ends in June.\n")
    with Project.load(ready_cli.root, extensions=[meanwhile]) as project:
        report = project.ingest("rules")
        assert report.status == "completed"
        assert len(project.query("rules", "access").matches) == 2
    assert {(done.code, done.out) for done in meanwhile.done} == {(1, "")}
    assert all("another ingest of knowledge base 'rules'" in done.err for done in meanwhile.done)
    assert purged(ready_cli, "--yes")[0]["documents"] == 2
    assert purged(ready_cli) == []


def test_a_process_that_still_declares_it(ready_cli: Cli) -> None:
    """Its searches report that nothing is ingested; its ingest restores the data."""
    with Project.load(ready_cli.root) as before:
        assert before.query("rules", "access").matches
        ready_cli.write({"lorebind.yaml": WITHOUT_RULES})
        assert len(purged(ready_cli, "--yes")) == 1
        with pytest.raises(NotIngestedError, match="lorebind knowledge ingest rules"):
            before.query("rules", "access")
        assert before.ingest("rules").documents["added"] == 1
        assert before.query("rules", "access").matches


class FailsOnce(StoreWrapper):
    """A store whose database becomes unavailable in the middle of a purge."""

    failed = False

    async def wrap_call(self, request: StoreCall, call_next: Callable[[], Awaitable[Any]]) -> Any:
        if request.name == "drop" and not self.failed:
            self.failed = True
            raise StoreError("gone away")
        return await call_next()


def test_what_an_outage_has_left(gone_cli: Cli) -> None:
    """Another purge removes the rest: vectors never remain without their catalog."""
    with Project.load(gone_cli.root) as project:
        index = project.knowledge.index("file")
        index.store = FailsOnce(index.store)
        with pytest.raises(StoreError, match="gone away"):
            project.purge(dry_run=False)
        assert project.purge(dry_run=False) == [GONE]
        assert project.purge() == []
    assert rows(gone_cli.root)["store_vectors"] == 2


def test_one_that_moved(ready_cli: Cli) -> None:
    """Its data in the previous vector database is removed, and nothing else."""
    moved = PROJECT.replace(
        "{ id: file, type: sqlite }",
        "{ id: file, type: sqlite }, { id: new, type: sqlite, config: { path: .lorebind/new.db } }",
    ).replace("  - id: rules\n", "  - id: rules\n    vector_db: new\n")
    ready_cli.write({"lorebind.yaml": moved})
    assert ready_cli("knowledge", "ingest", "rules").code == 0
    with Project.load(ready_cli.root) as project:
        assert project.purge(dry_run=False) == [GONE]
        assert project.query("rules", "access").matches
        assert project.query("docs", "rotate the keys").matches


def test_vector_databases_in_one_file(cli: Cli) -> None:
    """Knowledge bases declared in one of them do not count as leftovers of the other."""
    shared = PROJECT.replace(
        "{ id: file, type: sqlite }", "{ id: file, type: sqlite }, { id: same, type: sqlite }"
    ).replace("  - id: rules\n", "  - id: rules\n    vector_db: same\n")
    cli.write({"lorebind.yaml": shared})
    assert cli("knowledge", "ingest").code == 0
    assert purged(cli, "--yes") == []
    assert cli("knowledge", "query", "rules", "-q", "access").code == 0
    cli.write(
        {"lorebind.yaml": shared.replace(RULES.replace("\n", "\n    vector_db: same\n", 1), "")}
    )
    assert len(purged(cli, "--yes")) == 1
    assert purged(cli) == []
    assert rows(cli.root)["store_vectors"] == 2


def test_what_doctor_finds(gone_cli: Cli) -> None:
    """It warns with the name and both commands; the exit code stays 0."""
    assert finding(gone_cli) == {
        "part": "undeclared knowledge",
        "status": "warning",
        "detail": "1 chunks belong to knowledge bases that are no longer declared (rules); "
        "list them with: lorebind knowledge purge, and remove them with: "
        "lorebind knowledge purge --yes",
    }
    assert gone_cli("knowledge", "purge", "--yes").code == 0
    assert finding(gone_cli) is None


def postgres_project(root: Path, dsn: str, *knowledge_bases: tuple[str, str]) -> Project:
    """Return a project with two tables in one database, which share one catalog."""
    declared = {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [
            {"id": table, "type": "pgvector", "config": {"dsn": "{{ .env.PG }}", "table": table}}
            for table in ("one", "two")
        ],
        "knowledge_bases": [
            {
                "id": kb_id,
                "vector_db": table,
                "sources": [{"type": "markdown_glob", "path": f"{kb_id}/*.md"}],
            }
            for kb_id, table in knowledge_bases
        ],
    }
    return Project.build(declared, root=root, environ={"PG": dsn})


def postgres_rows(dsn: str) -> dict[str, int]:
    """Return the number of rows per table of knowledge bases, including full-text rows."""
    with psycopg.connect(dsn) as db:
        tables = db.execute(
            "select relname from pg_class where relkind = 'r' and relnamespace = %s::regnamespace",
            [db.execute("select current_schema()").fetchone()[0]],  # type: ignore[index]
        ).fetchall()
        counts = {
            name: db.execute(f'select count(*) from "{name}"').fetchone()[0]  # type: ignore[index]
            for (name,) in tables
        }
    return {name: count for name, count in counts.items() if name not in KEPT}


def test_in_postgresql(tmp_path: Path, dsn: str) -> None:
    """No table has any of its data, wherever its vectors were."""
    write(tmp_path, DOCUMENTS)
    with postgres_project(tmp_path, dsn, ("docs", "one"), ("rules", "two")) as project:
        project.ingest("docs")
        with_docs = postgres_rows(dsn)
        project.ingest("rules")
        assert project.purge(dry_run=False) == []
        assert project.query("rules", "access").matches
    with postgres_project(tmp_path, dsn, ("docs", "one")) as project:
        assert [kb.kb_id for kb in project.purge(dry_run=False)] == ["rules"]
        assert postgres_rows(dsn) == with_docs | {"two_vectors": 0, "two_counts": 0}
        assert project.query("docs", "rotate the keys").matches


def test_in_postgresql_while_it_is_ingested(tmp_path: Path, dsn: str) -> None:
    """A purge does not disturb an ingest of another process."""
    write(tmp_path, DOCUMENTS)
    with (
        postgres_project(tmp_path, dsn, ("docs", "one"), ("rules", "two")) as before,
        postgres_project(tmp_path, dsn, ("docs", "one")) as project,
    ):
        before.ingest("rules")
        kb = before.knowledge.open("rules").kb
        with kb.catalog.lease(kb.namespace), pytest.raises(IngestRunningError, match="'rules'"):
            project.purge(dry_run=False)
        assert before.query("rules", "access").matches
        assert len(project.purge(dry_run=False)) == 1
