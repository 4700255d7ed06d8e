"""The catalog's tables. Every row carries its namespace: tenant, project, scope, knowledge base."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

SCHEMA_VERSION = 4

MIGRATIONS = {
    2: (
        "ALTER TABLE catalog_documents ADD COLUMN version VARCHAR NOT NULL DEFAULT ''",
        "ALTER TABLE catalog_documents ADD COLUMN recipe VARCHAR NOT NULL DEFAULT ''",
    ),
    3: (
        "ALTER TABLE catalog_embeddings ADD COLUMN used_on INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE catalog_embeddings ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
        "UPDATE catalog_embeddings SET size = length(vector)",
        "CREATE INDEX catalog_embeddings_use ON catalog_embeddings (used_on, created_at, size)",
    ),
    4: ("ALTER TABLE catalog_documents ADD COLUMN refused VARCHAR NOT NULL DEFAULT ''",),
}
"""What makes tables of the version before into tables of this one, in every database."""

metadata = MetaData()


def _namespace() -> list[Column[str]]:
    return [Column(name, String, primary_key=True) for name in ("tenant", "project", "scope", "kb")]


versions = Table("catalog_version", metadata, Column("version", Integer, primary_key=True))

indexes = Table(
    "catalog_indexes",
    metadata,
    *_namespace(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", String, nullable=False),  # building | active | retired
    Column("manifest", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
)

documents = Table(
    "catalog_documents",
    metadata,
    *_namespace(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    # In the order of code points in every database, whatever its language.
    Column("uri", String().with_variant(String(collation="C"), "postgresql"), primary_key=True),
    Column("source", String, nullable=False),
    Column("title", String, nullable=False, default=""),
    Column("state", String, nullable=False),  # pending | ready | failed
    Column("reason", Text, nullable=False, default=""),
    Column("attempts", Integer, nullable=False, default=0),
    # What the visible generation was made of; a document with the same one is unchanged.
    Column("signature", String, nullable=False, default=""),
    Column("generation", Integer, nullable=False, default=0),  # the visible one; 0 is none
    Column("staged", Integer, nullable=False, default=0),  # the highest ever written to the store
    Column("chunk_count", Integer, nullable=False, default=0),
    Column("chunk_ids", JSON, nullable=False, default=list),  # of the visible generation
    Column("run_id", String, nullable=False, default=""),
    Column("updated_at", Float, nullable=False),
    Column("version", String, nullable=False, default="", server_default=""),  # its source's name
    Column("recipe", String, nullable=False, default="", server_default=""),  # how it was cut
    Column("refused", String, nullable=False, default="", server_default=""),  # see the ledger
)

runs = Table(
    "catalog_runs",
    metadata,
    *_namespace(),
    Column("run_id", String, primary_key=True),
    Column("strategy", String, nullable=False),
    Column("status", String, nullable=False),  # running, else IngestReport.status
    Column("started_at", Float, nullable=False),
    Column("finished_at", Float),
    Column("report", JSON),
)

embeddings = Table(
    "catalog_embeddings",
    metadata,
    Column("key", String, primary_key=True),  # SHA-256 over the embedder's fingerprint and the text
    Column("vector", LargeBinary, nullable=False),  # little-endian float32
    Column("created_at", Float, nullable=False),
    Column("used_on", Integer, nullable=False, server_default="0"),  # in days since 1970
    Column("size", Integer, nullable=False, server_default="0"),  # of the vector, in bytes
    # Holds all that is asked about size and use, so that no vector is read for it.
    Index("catalog_embeddings_use", "used_on", "created_at", "size"),
)
