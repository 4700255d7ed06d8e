"""The statements by which `PgvectorStore` finds records."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorebind_knowledge.stores.pgvector.schema import Tables

# More than single precision loses in a product of unit vectors.
MARGIN = 1e-5
_K1, _B = 1.2, 0.75
# A search for more words than this counts them record by record, not word by word.
_FEW_WORDS = 50

_MATCH = "r.chunk_id, r.content, r.langchain_metadata, r.generation"


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
    # Asked of each row that the index gives, and never a reason not to use it.
    published = _published_one(tables) if ordered else tables.is_published("r")
    return f"""
        with near as materialized (
          select r.ctid as at, -(embedding <#> %(query)s::vector) as cosine
          from {tables.rows} as r
          where index_key = %(key)s and {published} and {allowed} {some}
        )
        select {_MATCH}, vector_send(r.embedding) from {tables.rows} as r
        where r.ctid = any(array(
          select at from near where {_something("cosine")} and cosine >= coalesce(
            (select cosine from near order by cosine desc offset %(k)s - 1 limit 1), -2
          ) - {MARGIN}
        ))
    """


def unrelated(tables: Tables, allowed: str) -> str:
    """The first `k` by id of the rows that `nearest` leaves out: all of them have the score 0."""
    return f"""
        select {_MATCH}, vector_send(r.embedding) from {tables.rows} as r
        where index_key = %(key)s and {tables.is_published("r")} and {allowed}
        and not {_something("-(embedding <#> %(query)s::vector)")}
        order by chunk_id limit %(k)s
    """


def _published_one(tables: Tables) -> str:
    return f"(select d.published from {tables.docs} as d where d.version = r.version)"


def _something(cosine: str) -> str:
    """Not surely below 0, and not the 0 of vectors that share nothing."""
    return f"({cosine} >= -{MARGIN} and {cosine} <> 0)"


def best_by_words(tables: Tables, allowed: str, words: int) -> str:
    """The `k` best by BM25 for `words` (each `weights` times), with the figure and the score.

    The formula is FTS5's. What passes the filter is ranked; how rare a word is, is counted over
    all that is published.
    """
    if words <= _FEW_WORDS:
        # Joined with nothing, so that they are unpacked once and not for every word.
        times, rows = "c.times[p.place]", "terms || '{}'::bigint[], times || '{}'::integer[]"
        join = (
            "cross join words as w"
            " cross join lateral (select array_position(c.terms, w.word) offset 0) as p (place)"
            " where p.place is not null"
        )
    else:
        times, rows = "t.times", "terms, times"
        join = (
            "cross join lateral unnest(c.terms, c.times) as t (word, times)"
            " join words as w on w.word = t.word"
        )
    return f"""
        with words as (
          select * from unnest(%(words)s::bigint[], %(weights)s::float8[]) as w (word, weight)
        ), found as materialized (
          select c.at, c.length, c.allowed, w.word, w.weight, {times}::float8 as times from (
            select r.ctid, length, {allowed}, {rows}
            from {tables.rows} as r where index_key = %(key)s
            and terms && %(words)s::bigint[] and {tables.is_published("r")} offset 0
          ) as c (at, length, allowed, terms, times) {join}
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
        join {tables.rows} as r on r.ctid = s.at
        where s.score >= coalesce(
          (select score from scored order by score desc offset %(k)s - 1 limit 1), 0
        )
        order by s.score desc, r.chunk_id limit %(k)s
    """
