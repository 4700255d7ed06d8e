"""The tables of a server's state, and the database that holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.checks.template_checks import refuse_unset
from lorebind_config.project_files import DATA_FOLDER
from lorebind_knowledge.database.databases import EmbeddedDatabase
from lorebind_knowledge.database.tables import Tables

if TYPE_CHECKING:
    from lorebind_config.declarations.vector_dbs import CatalogDeclaration
    from lorebind_config.templates import Environment
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


def open_state(declared: CatalogDeclaration | None, environment: Environment) -> Database:
    """Return the database that `server: {state: …}` names, which is opened on first use.

    Args:
        declared: the declared state; None means a SQLite file in the project's data folder.
        environment: fills in templates; paths are relative to its folder.

    Raises:
        MissingVariableError: a variable that the declaration uses is not set.
    """
    if declared is not None:
        refuse_unset(declared, environment, "server state")
    if declared is None or declared.dsn is None:
        path = environment.root / DATA_FOLDER / "server.db"
        if declared is not None and declared.path is not None:
            path = environment.root / environment.fill(declared.path)
        return EmbeddedDatabase(path, TABLES)
    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.database.postgres_address import PostgresAddress

    return PostgresDatabase(
        PostgresAddress(environment.fill(declared.dsn)),
        TABLES,
        ensure_schema=declared.ensure_schema,
        own_schema=declared.table_schema or "lorebind_server",
    )


def lock(sql: Sql, table: str) -> None:
    """Lock a table against other writing transactions. In SQLite, there is only one writer
    anyway."""
    if sql.is_postgres:
        sql.run(f"lock table {table} in share row exclusive mode")
