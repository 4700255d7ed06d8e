"""The tables of a server's state, and the database that holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.errors import UsageError
from lorebind_config.project_files import STATE_FILE
from lorebind_knowledge.database.databases import EmbeddedDatabase
from lorebind_knowledge.database.tables import Tables
from lorebind_knowledge.stores.make import catalog_database

if TYPE_CHECKING:
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql

TABLES = Tables(
    "server",
    version=2,
    statements=(
        """create table if not exists server_tokens (
            id [name] primary key, name [name] not null unique, digest [name] not null,
            rights [name] not null, tenants text not null, created_at double precision not null,
            expires_at double precision)""",
        """create table if not exists server_knowledge_bases (
            tenant [name] not null, project [name] not null, kb [name] not null,
            declared text not null, declared_at [name] not null,
            primary key (tenant, project, kb))""",
        """create table if not exists server_runs (
            tenant [name] not null, project [name] not null, scope [name] not null,
            kb [name] not null, run_id [name] not null, request text not null,
            status [name] not null, requested_at double precision not null,
            finished_at double precision, owner [name] not null, beat double precision not null,
            cancelled integer not null, outcome text, alone integer not null default 1,
            declarations [name] not null default '',
            primary key (tenant, project, scope, kb, run_id))""",
        # One ingest of a knowledge base at a time. Those of added documents wait for their turn.
        """create unique index if not exists server_runs_open
            on server_runs (tenant, project, scope, kb)
            where finished_at is null and alone = 1""",
        "create index if not exists server_runs_ended on server_runs (project, scope, finished_at)",
        """create table if not exists server_run_events (
            tenant [name] not null, project [name] not null, run_id [name] not null,
            number bigint not null, kind [name] not null, event text not null,
            primary key (tenant, project, run_id, number))""",
        """create table if not exists server_workers (
            project [name] not null, declarations [name] not null, worker [name] primary key,
            beat double precision not null)""",
        """create table if not exists server_idempotency (
            tenant [name] not null, project [name] not null, key [name] not null,
            digest [name] not null, run_id [name] not null, used_at double precision not null,
            primary key (tenant, project, key))""",
    ),
    migrations={
        2: ["alter table server_runs add column declarations varchar not null default ''"],
    },
    move_away="move it away; tokens and knowledge bases created over the API are lost with it",
)


def open_state(loaded: LoadedProject) -> Database:
    """Return the database of a server's state, which is opened on first use.

    `server: {state: …}` names it. By default, it is beside a catalog in PostgreSQL, with the name
    of the project in that of its schema: tokens are for one project. Without such a catalog, or if
    it exists already, it is a SQLite file in the project's data folder.

    Raises:
        MissingVariableError: a variable that the declaration uses is not set.
    """
    declared, environment = loaded.project.server.state, loaded.environment
    if (beside := loaded.beside_state) is not None:
        catalog = catalog_database(beside, environment)
        return catalog.beside(TABLES, f"server_{loaded.project.name}")
    if declared is None:
        return EmbeddedDatabase(environment.root / STATE_FILE, TABLES)
    refuse_unset(declared, environment, "server state")
    if declared.dsn is None:
        return EmbeddedDatabase(environment.root / environment.fill(declared.path), TABLES)
    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.database.postgres_address import PostgresAddress

    return PostgresDatabase(
        PostgresAddress(environment.fill(declared.dsn)),
        TABLES,
        ensure_schema=declared.ensure_schema,
        own_schema=declared.table_schema or "lorebind_server",
    )


def refuse_alone(loaded: LoadedProject) -> None:
    """Check that workers can reach the state, if they take its runs.

    Raises:
        UsageError: they cannot.
    """
    server = loaded.project.server
    shared = loaded.beside_state if server.state is None else server.state.dsn
    if server.ingests == "workers" and shared is None:
        raise UsageError(
            "workers of other machines cannot take runs (server: { ingests: workers }), because "
            f"the state of the server is in a file; move {STATE_FILE} away, or declare "
            "server: { state: { dsn: … } }"
        )


def lock(sql: Sql, table: str) -> None:
    """Lock a table against other writing transactions. In SQLite, there is only one writer
    anyway."""
    if sql.is_postgres:
        sql.run(f"lock table {table} in share row exclusive mode")
