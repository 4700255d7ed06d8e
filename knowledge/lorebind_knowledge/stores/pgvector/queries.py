"""The statements by which `PgvectorStore` moves and finds records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.stores.pgvector.schema import COLUMNS

if TYPE_CHECKING:
    from lorebind_knowledge.stores.pgvector.schema import Tables

# More than single precision loses in a product of unit vectors.
MARGIN = 1e-5
_K1, _B = 1.2, 0.75
# A search for more words than this counts them record by record, not word by word.
_FEW_WORDS = 50

_DOCUMENT = "index_key = %(key)s and md5(uri) = md5(%(uri)s::text) and uri = %(uri)s::text"
_IDENTITY = "index_key, langchain_id, generation"
_MATCH = "r.langchain_id, r.content, r.langchain_metadata, r.generation"


def replace_staged(tables: Tables) -> str:
    """Removes what is staged under the identities of a batch (`ids`, `generations`)."""
    return (
        f"delete from {tables.staged} as r using unnest(%(ids)s::text[], %(generations)s::bigint[])"
        ' as n (id, generation) where r.index_key = %(key)s and r.langchain_id = n.id collate "C"'
        " and r.generation = n.generation"
    )


def copy_staged(tables: Tables) -> str:
    """Takes rows in binary."""
    return f"copy {tables.staged} ({', '.join(COLUMNS)}) from stdin (format binary)"


def publish(tables: Tables) -> str:
    """Moves a document's generation in, and whatever else was published of it out."""
    columns = ", ".join(COLUMNS)
    newer = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS)
    # Every part sees the tables as they were, so what goes is counted before it has gone. What was
    # staged again since is newer than what is published under the same identity.
    return f"""
        with rising as (
          delete from {tables.staged} where {_DOCUMENT} and generation = %(generation)s
          returning {columns}
        ), gone as (
          select length from {tables.live} where {_DOCUMENT}
          and (generation <> %(generation)s or langchain_id in (select langchain_id from rising))
        ), falling as (
          delete from {tables.live} where {_DOCUMENT} and generation <> %(generation)s
          returning {columns}
        ), kept as (
          insert into {tables.staged} ({columns}) select {columns} from falling
          on conflict ({_IDENTITY}) do nothing
        ), risen as (
          insert into {tables.live} ({columns}) select {columns} from rising
          on conflict ({_IDENTITY}) do update set {newer}
        )
        update {tables.indexes} set
          records = records + (select count(*) from rising) - (select count(*) from gone),
          words = words + coalesce((select sum(length) from rising), 0)
            - coalesce((select sum(length) from gone), 0)
        where key = %(key)s
    """


def delete(tables: Tables, conditions: str) -> str:
    """Removes rows, and gives how many they were."""
    return f"""
        with staged as (delete from {tables.staged} where {conditions} returning 1),
          live as (delete from {tables.live} where {conditions} returning length)
        update {tables.indexes} set
          records = records - (select count(*) from live),
          words = words - coalesce((select sum(length) from live), 0)
        where key = %(key)s
        returning (select count(*) from staged) + (select count(*) from live)
    """


def conditions(*, uri: bool, generation: bool, except_generation: bool) -> str:
    """Which records of an index a delete is about."""
    parts = [_DOCUMENT if uri else "index_key = %(key)s"]
    if generation:
        parts.append("generation = %(generation)s")
    if except_generation:
        parts.append("generation <> %(except_generation)s")
    return " and ".join(parts)


def nearest(tables: Tables, allowed: str, ordered: str = "") -> str:
    """The rows among which the `k` nearest are, but for those that share nothing with the query.

    The products are made in single precision, which only nominates: whoever asks works out the
    cosines of what comes back.

    Args:
        tables: the tables.
        allowed: the condition of a filter.
        ordered: what takes `candidates` rows from an approximate index; empty for all.
    """
    some = f"order by {ordered} limit %(candidates)s" if ordered else ""
    return f"""
        with near as materialized (
          select ctid as at, -(embedding <#> %(query)s::vector) as cosine from {tables.live}
          where index_key = %(key)s and {allowed} {some}
        )
        select {_MATCH}, vector_send(r.embedding) from {tables.live} as r
        where r.ctid = any(array(
          select at from near where {_something("cosine")} and cosine >= coalesce(
            (select cosine from near order by cosine desc offset %(k)s - 1 limit 1), -2
          ) - {MARGIN}
        ))
    """


def unrelated(tables: Tables, allowed: str) -> str:
    """The first `k` by id of the rows that `nearest` leaves out: all of them have the score 0."""
    return f"""
        select {_MATCH}, vector_send(r.embedding) from {tables.live} as r
        where index_key = %(key)s and {allowed}
        and not {_something("-(embedding <#> %(query)s::vector)")}
        order by langchain_id limit %(k)s
    """


def _something(cosine: str) -> str:
    """Not surely below 0, and not the 0 of vectors that share nothing."""
    return f"({cosine} >= -{MARGIN} and {cosine} <> 0)"


def best_by_words(tables: Tables, allowed: str, words: int) -> str:
    """The `k` best by BM25 for `words` (each `weights` times), with the figure and the score.

    The formula is FTS5's. What passes the filter is ranked; how rare a word is, is counted over
    all that is published.
    """
    if words <= _FEW_WORDS:
        # Joined with nothing, so that it is unpacked once and not for every word.
        rows, terms = "terms || '{}'::jsonb as terms", "(c.terms ->> w.word)::float8"
        join = "cross join words as w where c.terms ? w.word"
    else:
        rows, terms = "terms", "t.times::float8"
        join = (
            "cross join lateral jsonb_each_text(c.terms) as t (word, times)"
            " join words as w on w.word = t.word"
        )
    return f"""
        with words as (
          select * from unnest(%(words)s::text[], %(weights)s::float8[]) as w (word, weight)
        ), found as materialized (
          select c.at, c.length, c.allowed, w.word, w.weight, {terms} as times from (
            select ctid as at, length, {allowed} as allowed, {rows} from {tables.live}
            where index_key = %(key)s and terms ?| %(words)s::text[] offset 0
          ) as c {join}
        ), rarity as (
          select word, greatest(
            ln((%(records)s::float8 - count(*) + 0.5::float8) / (count(*) + 0.5::float8)),
            1e-6::float8) as idf
          from found group by word
        ), ranked as (
          select at, sum(weight * idf * times * {_K1 + 1}::float8 / (times + {_K1}::float8
            * ({1 - _B}::float8 + {_B}::float8 * length / %(average)s::float8))) as bm25
          from found join rarity using (word) where allowed group by at
        ), scored as (
          select at, bm25, round(bm25 / max(bm25) over () * 1e6::float8) as score from ranked
        )
        select {_MATCH}, s.bm25, s.score / 1e6::float8 from scored as s
        join {tables.live} as r on r.ctid = s.at
        where s.score >= coalesce(
          (select score from scored order by score desc offset %(k)s - 1 limit 1), 0
        )
        order by s.score desc, r.langchain_id limit %(k)s
    """
