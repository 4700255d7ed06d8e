"""The catalog's tables. Every row carries its namespace: tenant, project, scope, knowledge base."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
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

SCHEMA_VERSION = 5

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
    5: (
        "ALTER TABLE catalog_indexes ADD COLUMN birth BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE catalog_indexes ADD COLUMN version BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE catalog_indexes ADD COLUMN swept BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE catalog_indexes ADD COLUMN live BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE catalog_indexes ADD COLUMN entered BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE catalog_indexes ADD COLUMN next_number BIGINT NOT NULL DEFAULT 1",
        "ALTER TABLE catalog_documents DROP COLUMN chunk_ids",
        "ALTER TABLE catalog_documents DROP COLUMN staged",
    ),
}
"""What makes tables of the version before into tables of this one, in every database."""

NUMBERED = 5
"""The version from which the catalog knows chunks, and stores know vectors by numbers."""

NEW_TABLES = ("catalog_leases", "catalog_versions", "catalog_chunks", "catalog_vectors")
"""The tables that came with it."""

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
    # Random: an index that gets the number of one that was dropped is another one all the same.
    Column("birth", BigInteger, nullable=False, server_default="0"),
    # Counts what searches can see: it grows with every publication.
    Column("version", BigInteger, nullable=False, server_default="0"),
    # Of the vectors that were found at this version or later, none has been deleted.
    Column("swept", BigInteger, nullable=False, server_default="0"),
    Column("live", BigInteger, nullable=False, server_default="0"),  # chunks that searches find
    Column("entered", BigInteger, nullable=False, server_default="0"),  # vectors not yet forgotten
    Column("next_number", BigInteger, nullable=False, server_default="1"),  # of a vector
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
    Column("chunk_count", Integer, nullable=False, default=0),
    Column("run_id", String, nullable=False, default=""),
    Column("updated_at", Float, nullable=False),
    Column("version", String, nullable=False, default="", server_default=""),  # its source's name
    Column("recipe", String, nullable=False, default="", server_default=""),  # how it was cut
    Column("refused", String, nullable=False, default="", server_default=""),  # see the ledger
)

leases = Table(
    "catalog_leases",
    metadata,
    Column("name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("expires", Float, nullable=False),  # in seconds since 1970
    # Whether its holder has the lock of processes too, which is then free when it has ended.
    Column("locked", Boolean, nullable=False),
)

_RowNumber = BigInteger().with_variant(Integer, "sqlite")

# A generation of a document's chunks. What is dead never becomes live again.
versions_of_documents = Table(
    "catalog_versions",
    metadata,
    Column("version", _RowNumber, primary_key=True),
    Column("space", BigInteger, nullable=False),  # the birth of its index
    Column("uri", String().with_variant(String(collation="C"), "postgresql"), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("state", Integer, nullable=False),  # see STAGED, LIVE, DEAD in `versions`
    Index("catalog_versions_document", "space", "uri", "generation"),
    Index("catalog_versions_state", "space", "state"),
    sqlite_autoincrement=True,
)

chunks = Table(
    "catalog_chunks",
    metadata,
    # In the order of the document, within a version.
    Column("row", _RowNumber, primary_key=True),
    Column("space", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),  # of its vector in the store
    Column("id", String().with_variant(String(collation="C"), "postgresql"), nullable=False),
    Column("context", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("metadata", Text, nullable=False),  # as JSON
    Index("catalog_chunks_version", "version"),
    Index("catalog_chunks_number", "space", "number"),
    Index("catalog_chunks_id", "space", "id"),
    sqlite_autoincrement=True,
)

# For vector databases that do not give vectors back.
vectors = Table(
    "catalog_vectors",
    metadata,
    Column("row", _RowNumber, primary_key=True),
    Column("space", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("vector", LargeBinary, nullable=False),  # little-endian float32
    Index("catalog_vectors_number", "space", "number", unique=True),
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
