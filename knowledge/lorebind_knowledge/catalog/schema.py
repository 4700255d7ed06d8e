"""The catalog's tables. Rows of a knowledge base have the columns tenant, project, scope and kb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.catalog import earlier_words
from lorebind_knowledge.catalog.rows import OWNER
from lorebind_knowledge.database.tables import Tables

if TYPE_CHECKING:
    from lorebind_knowledge.database.sql import Sql

SCHEMA_VERSION = 1

MIGRATIONS: dict[int, tuple[str, ...]] = {}
"""By version: the statements that turn the tables of the previous version into it, in every
database."""

_OWNERS = ", ".join(f"{name} varchar not null" for name in OWNER.split(", "))

STATEMENTS = (
    f"""create table if not exists catalog_indexes ({_OWNERS},
  number integer not null,
  state varchar not null, -- see `indexes.STATES`
  manifest json not null,
  created_at float not null,
  -- Random: a new index that reuses the number of a dropped one has another index_uid.
  index_uid bigint not null,
  -- Incremented by every publication, which changes what searches find.
  version bigint not null default 0,
  -- Vectors that searches found at this version or later have not been deleted.
  swept bigint not null default 0,
  live bigint not null default 0, -- chunks that searches find
  entered bigint not null default 0, -- vectors not yet deleted
  next_number bigint not null default 1, -- of a vector
  words integer not null default 0, -- the VERSION of `tokenize` that split its texts
  primary key (tenant, project, scope, kb, number)
)""",
    f"""create table if not exists catalog_documents ({_OWNERS},
  number integer not null, -- of the index
  uri [name] not null,
  source varchar not null,
  title varchar not null,
  state varchar not null, -- pending | ready | failed
  reason text not null,
  attempts integer not null,
  -- Identifies the inputs of the live generation; the same signature means unchanged.
  signature varchar not null,
  generation integer not null, -- the live one; 0 means none
  chunk_count integer not null,
  run_id varchar not null,
  updated_at float not null,
  version varchar not null default '', -- the source's name for it
  recipe varchar not null default '', -- how it was made into chunks
  refused varchar not null default '', -- see the ledger
  id varchar not null, -- `document_id` of the uri
  textless_parts varchar not null default '', -- of the live generation, as JSON
  format varchar not null default '', -- as which it was read
  size bigint not null default 0, -- in bytes
  modified varchar not null default '', -- as `lorebind_config.dates` stores it
  names text not null default '', -- uri and title in lower case, to search for
  primary key (tenant, project, scope, kb, number, uri)
)""",
    f"create index if not exists catalog_documents_id on catalog_documents (id, {OWNER}, number)",
    # They are few and asked for most often: listing them must not read the many ready ones.
    "create index if not exists catalog_documents_unready"
    f" on catalog_documents ({OWNER}, number, state, uri) where state <> 'ready'",
    # Whole documents that were added by hand.
    f"""create table if not exists catalog_added ({_OWNERS},
  uri [name] not null,
  media_type varchar not null,
  metadata text not null, -- as JSON
  data [bytes] not null,
  primary key (tenant, project, scope, kb, uri)
)""",
    # Documents that searches do not find, in any index of the knowledge base.
    f"""create table if not exists catalog_excluded ({_OWNERS},
  uri [name] not null,
  primary key (tenant, project, scope, kb, uri)
)""",
    # The text that OCR recognized in pages of documents, so that each page is read once.
    f"""create table if not exists catalog_recognized ({_OWNERS},
  uri [name] not null,
  page varchar not null, -- SHA-256 over its picture and the models
  text text not null,
  boxes text not null, -- where its lines are, as JSON
  primary key (tenant, project, scope, kb, uri, page)
)""",
    f"create index if not exists catalog_recognized_page on catalog_recognized ({OWNER}, page)",
    """create table if not exists catalog_leases (
  name varchar primary key,
  number bigint not null,
  expires float not null, -- in seconds since 1970
  seconds float not null, -- its duration
  -- Whether its holder has the process lock too, which is freed when the process ends.
  locked boolean not null
)""",
    # A generation of a document's chunks. A dead generation never becomes live again.
    """create table if not exists catalog_versions (
  version [count],
  space bigint not null, -- the index_uid of its index
  uri [name] not null,
  generation integer not null,
  language varchar not null default 'en', -- by which its words were stemmed
  state integer not null -- see STAGED, LIVE, DEAD in `versions`
)""",
    "create index if not exists catalog_versions_document"
    " on catalog_versions (space, uri, generation)",
    "create index if not exists catalog_versions_state on catalog_versions (space, state)",
    # The number of documents that searches find, because counting them takes long.
    """create table if not exists catalog_languages (
  space bigint not null,
  language varchar not null,
  documents bigint not null,
  primary key (space, language)
)""",
    """create table if not exists catalog_chunks (
  row [count], -- in document order within a version
  space bigint not null,
  version bigint not null,
  number bigint not null, -- of its vector in the store
  id [name] not null,
  context text not null,
  text text not null,
  metadata text not null -- as JSON
)""",
    "create index if not exists catalog_chunks_version on catalog_chunks (version)",
    # Covers what a search reads of hundreds of passages, whose rows with texts are far apart.
    "create index if not exists catalog_chunks_number"
    " on catalog_chunks (space, number, id, version)",
    "create index if not exists catalog_chunks_id on catalog_chunks (space, id)",
    # The terms of passages, see `postings`.
    """create table if not exists catalog_segments (
  segment [count],
  space bigint not null,
  kind integer not null,
  passages integer not null, -- the number of them
  numbers [bytes] not null, -- int64, by position
  lengths [bytes] not null, -- uint32, see `Passage.length`, by position
  documents [bytes] not null, -- int64, a hash of the document's uri, by position
  gone [bytes] not null -- int64, numbers of passages that are not live from here on
)""",
    "create index if not exists catalog_segments_space on catalog_segments (space, kind, segment)",
    """create table if not exists catalog_postings (
  segment bigint not null,
  first_term [name] not null, -- of the row
  terms text not null, -- sorted, one per line
  counts [bytes] not null, -- uint32, the number of passages for each term
  positions [bytes] not null, -- uint16, of passages, by term
  weights [bytes] not null, -- uint8, by term and passage
  primary key (segment, first_term)
)""",
    # The terms that a sparse embedder gave to staged chunks, until they are published.
    """create table if not exists catalog_terms (
  row [count],
  space bigint not null,
  version bigint not null,
  number bigint not null,
  terms [bytes] not null -- see `terms`
)""",
    "create index if not exists catalog_terms_version on catalog_terms (version)",
    # For vector databases that do not return vectors.
    """create table if not exists catalog_vectors (
  row [count],
  space bigint not null,
  number bigint not null,
  vector [bytes] not null -- little-endian float32
)""",
    "create unique index if not exists catalog_vectors_number on catalog_vectors (space, number)",
    f"""create table if not exists catalog_runs ({_OWNERS},
  run_id varchar not null,
  strategy varchar not null,
  status varchar not null, -- running, else IngestReport.status
  started_at float not null,
  finished_at float,
  report json,
  progress json, -- see RunInfo
  primary key (tenant, project, scope, kb, run_id)
)""",
    "create index if not exists catalog_runs_started"
    f" on catalog_runs ({OWNER}, started_at, run_id)",
    # When embedders may be called next, see `call_rates`.
    """create table if not exists catalog_call_rates (
  key varchar primary key, -- of the embedder
  due float not null, -- when all calls that have a turn are paid for, in seconds since 1970
  held_until float not null -- as the provider has asked
)""",
    """create table if not exists catalog_embeddings (
  key varchar primary key, -- SHA-256 over the embedder's fingerprint and the text
  vector [bytes] not null, -- see `embedding_cache`
  created_at float not null,
  used_on integer not null default 0, -- in days since 1970
  size integer not null default 0 -- of the vector, in bytes
)""",
    # Texts that a worker embeds with one call, see `batches`.
    """create table if not exists catalog_batches (
  id varchar primary key,
  lease varchar not null, -- the lease of the ingest that waits for it
  number bigint not null, -- of the lease
  embedder varchar not null, -- identifies embedder and version of Lorebind
  about varchar not null, -- names them and the knowledge base, as JSON
  texts text not null, -- as JSON
  attempts integer not null default 0, -- by workers that ended
  worker varchar not null default '', -- the worker that embeds it
  until float not null default 0, -- when another worker may take it, in seconds since 1970
  done integer not null default 0, -- 1 if it was embedded, or has failed
  error text not null default '' -- as JSON
)""",
    "create index if not exists catalog_batches_lease on catalog_batches (lease)",
    # The texts that workers are embedding at the moment.
    """create table if not exists catalog_claims (
  key varchar primary key, -- as in catalog_embeddings
  holder varchar not null, -- the id of the batch
  until float not null -- when another batch may take it
)""",
    # Covers all queries about size and use, so that they read no vectors.
    "create index if not exists catalog_embeddings_use"
    " on catalog_embeddings (used_on, created_at, size)",
    """create table if not exists catalog_embedding_sizes (
  row [count],
  bytes bigint not null -- by which all embeddings became larger, see `embedding_cache`
)""",
)


class _CatalogTables(Tables):
    def is_finished(self, sql: Sql) -> bool:
        return not earlier_words.are_left(sql)

    def finish(self, sql: Sql, version: int | None) -> None:
        earlier_words.split_again(sql)


CATALOG = _CatalogTables(
    "catalog",
    SCHEMA_VERSION,
    STATEMENTS,
    migrations=MIGRATIONS,
    move_away="move it away, then ingest again; documents that were added are lost",
)
