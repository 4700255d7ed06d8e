"""The generations of documents: staged, then live, then dead, and never back.

Functions over one transaction of the catalog. A vector is known by a number, which an index gives
once: a chunk keeps the number of the live chunk of its id while what was embedded and what the
store was told of it stay the same. So what is deleted in the store can never be wanted again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.bm25.tokenize import Passage
from lorebind_knowledge.catalog import postgres_words, words
from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType

    from lorebind_knowledge.catalog.entries import Entry
    from lorebind_knowledge.database.sql import Sql

STAGED, LIVE, DEAD = 0, 1, 2


class Change(NamedTuple):
    """What the publication of a document changed, in chunks."""

    added: int
    removed: int
    unchanged: int


class Dead(NamedTuple):
    """What can be deleted for ever."""

    versions: list[int]
    numbers: list[int]
    """Vectors that no version uses but these."""


class _Known(NamedTuple):
    """A chunk that is there already."""

    row: int
    version: int
    id: str
    number: int
    context: str
    text: str
    metadata: str


def words_in(sql: Sql) -> ModuleType:
    """The functions about words for a database."""
    return postgres_words if sql.is_postgres else words


def stage(
    sql: Sql, space: int, entries: Sequence[Entry], told: Callable[[str], Any]
) -> dict[int, Entry]:
    """Write chunks that no search finds yet.

    Args:
        sql: a transaction that writes.
        space: the index.
        entries: the chunks; no two of them have the same document, generation and id.
        told: what a store is told of a chunk's metadata, which are JSON.

    Returns:
        those whose vectors the store does not have yet, by their numbers.

    Raises:
        StoreError: a generation is not newer than the one that searches find, or in two languages.
    """
    wanted: dict[tuple[str, int], str] = {}
    for entry in entries:
        language = wanted.setdefault((entry.uri, entry.generation), entry.language)
        if language != entry.language:
            raise _two_languages(entry.uri, language, entry.language)
    versions = _staged_versions(sql, space, wanted)
    there = [
        _Known(*row)
        for row in sql.run(
            "select row, version, id, number, context, text, metadata from catalog_chunks"
            " where space = :space and id in (:*ids)",
            space=space,
            ids=[entry.id for entry in entries],
        )
    ]
    _bury_replaced(sql, space, versions, entries, there)
    live = _live_chunks(sql, there)

    def kept(entry: Entry) -> int | None:
        before = live.get((entry.uri, entry.id, entry.language))
        if before is None or (before.context, before.text) != (entry.context, entry.text):
            return None
        return before.number if told(before.metadata) == told(entry.metadata) else None

    numbers = [kept(entry) for entry in entries]
    count = numbers.count(None)
    ((following,),) = sql.run(
        "update catalog_indexes set next_number = next_number + :count, entered = entered + :count"
        " where birth = :space returning next_number",
        space=space,
        count=count,
    )
    fresh = iter(range(following - count, following))
    new = {}
    rows = []
    for entry, known in zip(entries, numbers, strict=True):
        number = known
        if number is None:
            number = next(fresh)
            new[number] = entry
        rows.append(
            {
                "space": space,
                "version": versions[entry.uri, entry.generation],
                "number": number,
                "id": entry.id,
                "context": entry.context,
                "text": entry.text,
                "metadata": entry.metadata,
            }
        )
    sql.insert("catalog_chunks", rows)
    return new


def publish(sql: Sql, space: int, generations: Mapping[str, int]) -> dict[str, Change]:
    """Let searches find these generations of documents, and no others of them.

    A generation that was never staged leaves its document without chunks.

    Raises:
        StoreError: a newer generation of one of them is live already.
    """
    rising: dict[int, str] = {}
    falling: dict[int, str] = {}
    stale: list[int] = []
    unseen = dict(generations)
    for version, uri, generation, state in sql.run(
        "select version, uri, generation, state from catalog_versions"
        f" where space = :space and state <> {DEAD} and uri in (:*uris)",
        space=space,
        uris=list(generations),
    ):
        wanted = generations[uri]
        if generation == wanted:
            unseen.pop(uri)
            if state == STAGED:
                rising[version] = uri
        elif state == LIVE:
            if generation > wanted:
                raise _older(uri, wanted, generation)
            falling[version] = uri
        elif generation < wanted:
            stale.append(version)
    _insert_versions(sql, space, dict.fromkeys(unseen.items(), ""), LIVE)
    before, gone = _members(sql, falling)
    after, come = _members(sql, rising)
    _let_words_count(sql, space, list(falling), gone.keys() - come.keys(), count=False)
    _let_words_count(sql, space, list(rising), come.keys() - gone.keys(), count=True)
    _set_state(sql, [*falling, *stale], DEAD)
    _set_state(sql, list(rising), LIVE)
    more = sum(map(len, after.values())) - sum(map(len, before.values()))
    _grow(sql, space, more)
    changed = {*rising.values(), *falling.values()}
    return {
        uri: Change(
            len(after[uri] - before[uri]),
            len(before[uri] - after[uri]),
            len(after[uri] & before[uri]),
        )
        for uri in changed
    }


def remove(sql: Sql, space: int, uris: Sequence[str]) -> int:
    """Let searches find nothing of documents any more; how many chunks that were."""
    rows = sql.run(
        "select version, uri, state from catalog_versions"
        f" where space = :space and state <> {DEAD} and uri in (:*uris)",
        space=space,
        uris=list(uris),
    )
    live = {version: uri for version, uri, state in rows if state == LIVE}
    members, gone = _members(sql, live)
    _let_words_count(sql, space, list(live), gone.keys(), count=False)
    _set_state(sql, [version for version, *_ in rows], DEAD)
    count = sum(map(len, members.values()))
    _grow(sql, space, -count)
    return count


def next_generations(sql: Sql, space: int, uris: Sequence[str]) -> dict[str, int]:
    """Of each document a generation that is newer than all it has."""
    rows = sql.run(
        "select uri, max(generation) from catalog_versions"
        " where space = :space and uri in (:*uris) group by uri",
        space=space,
        uris=list(uris),
    )
    latest = dict(rows)
    return {uri: latest.get(uri, 0) + 1 for uri in uris}


def live_documents(sql: Sql, space: int) -> list[str]:
    """The documents that searches find."""
    rows = sql.run(
        f"select uri from catalog_versions where space = :space and state = {LIVE}", space=space
    )
    return [uri for (uri,) in rows]


def abandon(sql: Sql, space: int) -> None:
    """What an interrupted writer has staged is dead. Only the holder of the lease may say so."""
    sql.run(
        f"update catalog_versions set state = {DEAD} where space = :space and state = {STAGED}",
        space=space,
    )


def condemn(sql: Sql, space: int) -> Dead:
    """What is dead now, after a mark that makes searches begin again which saw it alive."""
    dead = f"select version from catalog_versions where space = :space and state = {DEAD}"
    versions = [version for (version,) in sql.run(dead, space=space)]
    if not versions:
        return Dead([], [])
    sql.run("update catalog_indexes set swept = version where birth = :space", space=space)
    numbers = sql.run(
        f"select distinct number from catalog_chunks as c where version in ({dead})"
        " and not exists (select 1 from catalog_chunks as other join catalog_versions as v"
        " on v.version = other.version where other.space = :space and other.number = c.number"
        f" and v.state <> {DEAD})",
        space=space,
    )
    return Dead(versions, [number for (number,) in numbers])


def forget(sql: Sql, space: int, dead: Dead) -> None:
    """Delete the chunks and versions whose vectors the store has deleted."""
    # Another thread may have forgotten some of it meanwhile, and what is gone is not counted twice.
    ((count,),) = sql.run(
        "select count(distinct number) from catalog_chunks"
        " where version in (:*gone) and number in (:*numbers)",
        gone=dead.versions,
        numbers=dead.numbers,
    )
    sql.run("delete from catalog_chunks where version in (:*gone)", gone=dead.versions)
    sql.run("delete from catalog_versions where version in (:*gone)", gone=dead.versions)
    sql.run(
        "delete from catalog_vectors where space = :space and number in (:*numbers)",
        space=space,
        numbers=dead.numbers,
    )
    sql.run(
        "update catalog_indexes set entered = entered - :count where birth = :space",
        space=space,
        count=count,
    )


def drop(sql: Sql, space: int) -> None:
    """Forget all of an index."""
    words_in(sql).drop(sql.driver, space)
    for table in ("catalog_chunks", "catalog_versions", "catalog_vectors"):
        sql.run(f"delete from {table} where space = :space", space=space)


def _staged_versions(
    sql: Sql, space: int, wanted: Mapping[tuple[str, int], str]
) -> dict[tuple[str, int], int]:
    """The versions that chunks are staged into, by document and generation.

    Args:
        wanted: their languages, by the same.
    """
    found = {}
    for version, uri, generation, state, language in sql.run(
        "select version, uri, generation, state, language from catalog_versions"
        f" where space = :space and state <> {DEAD} and uri in (:*uris)",
        space=space,
        uris=list({uri for uri, _ in wanted}),
    ):
        found[uri, generation] = version
        for other, number in wanted:
            if state == LIVE and other == uri and number <= generation:
                raise _older(uri, number, generation)
        if (asked := wanted.get((uri, generation), language)) != language:
            raise _two_languages(uri, language, asked)
    missing = {one: language for one, language in wanted.items() if one not in found}
    return found | _insert_versions(sql, space, missing, STAGED)


def _insert_versions(
    sql: Sql, space: int, wanted: Mapping[tuple[str, int], str], state: int
) -> dict[tuple[str, int], int]:
    made = {}
    for (uri, generation), language in wanted.items():
        ((version,),) = sql.run(
            "insert into catalog_versions (space, uri, generation, state, language)"
            " values (:space, :uri, :generation, :state, :language) returning version",
            language=language,
            space=space,
            uri=uri,
            generation=generation,
            state=state,
        )
        made[uri, generation] = version
    return made


def _bury_replaced(
    sql: Sql,
    space: int,
    versions: Mapping[tuple[str, int], int],
    entries: Sequence[Entry],
    known: Iterable[_Known],
) -> None:
    """Replace chunks that were staged before, in the same version and under the same id."""
    wanted = {(versions[entry.uri, entry.generation], entry.id) for entry in entries}
    replaced = [one.row for one in known if (one.version, one.id) in wanted]
    if replaced:
        (grave,) = _insert_versions(sql, space, {("", 0): ""}, DEAD).values()
        sql.run(
            "update catalog_chunks set version = :grave where row in (:*rows)",
            grave=grave,
            rows=replaced,
        )


def _live_chunks(sql: Sql, known: Sequence[_Known]) -> dict[tuple[str, str, str], _Known]:
    """Those of the chunks that searches find, by document, id and language."""
    # Not by a join, for which PostgreSQL may begin with all that is live.
    rows = sql.run(
        "select version, uri, language from catalog_versions"
        f" where version in (:*versions) and state = {LIVE}",
        versions=list({one.version for one in known}),
    )
    live = {version: (uri, language) for version, uri, language in rows}
    found = ((live[one.version], one) for one in known if one.version in live)
    return {(uri, one.id, language): one for (uri, language), one in found}


def _members(
    sql: Sql, versions: Mapping[int, str]
) -> tuple[defaultdict[str, set[str]], dict[int, str]]:
    """The ids of the chunks of versions by document, and the documents of their vectors."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    numbers = {}
    for version, number, name in sql.run(
        "select version, number, id from catalog_chunks where version in (:*versions)",
        versions=list(versions),
    ):
        ids[versions[version]].add(name)
        numbers[number] = versions[version]
    return ids, numbers


def _let_words_count(
    sql: Sql, space: int, versions: list[int], numbers: Iterable[int], *, count: bool
) -> None:
    wanted = set(numbers)
    if not wanted:
        return
    passages = [
        Passage(number, f"{context}\n{text}", language)
        for number, context, text, language in sql.run(
            "select c.number, c.context, c.text, v.language from catalog_chunks as c"
            " join catalog_versions as v on v.version = c.version"
            " where c.version in (:*versions)",
            versions=versions,
        )
        if number in wanted
    ]
    if count:
        words_in(sql).add(sql.driver, space, passages)
    else:
        words_in(sql).remove(sql.driver, space, passages)


def _set_state(sql: Sql, versions: list[int], state: int) -> None:
    if versions:
        sql.run(
            f"update catalog_versions set state = {state} where version in (:*versions)",
            versions=versions,
        )


def _grow(sql: Sql, space: int, chunks: int) -> None:
    """Another version of the index, with so many more chunks to be found."""
    sql.run(
        "update catalog_indexes set version = version + 1, live = live + :chunks"
        " where birth = :space",
        space=space,
        chunks=chunks,
    )


def _two_languages(uri: str, one: str, other: str) -> StoreError:
    """Its words would be kept by one language, and taken away by the other."""
    return StoreError(
        f"{uri!r}: one generation of a document cannot be in two languages, {one!r} and {other!r}; "
        "stage it as another generation"
    )


def _older(uri: str, asked: int, live: int) -> StoreError:
    return StoreError(
        f"{uri!r}: generation {asked} is not newer than generation {live}, which searches find; "
        "another writer has come between, run the ingest again"
    )
