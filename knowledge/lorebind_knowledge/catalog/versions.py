"""The generations of documents: they are staged, then live, then dead, and never go back.

The functions work in one transaction of the catalog. A vector is identified by a number, which an
index assigns only once. A chunk keeps the number of the live chunk with the same id if its embedded
text and the metadata sent to the store are the same. A vector deleted in the store is therefore
never needed again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_config.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lorebind_knowledge.catalog.entries import Entry
    from lorebind_knowledge.database.sql import Sql

STAGED, LIVE, DEAD = 0, 1, 2

_ADDED = (
    "on conflict (space, language) do update"
    " set documents = catalog_languages.documents + excluded.documents"
)


class Change(NamedTuple):
    """The numbers of chunks that the publication of a document changed."""

    added: int
    removed: int
    unchanged: int


class Dead(NamedTuple):
    """Versions and vectors that can be deleted permanently."""

    versions: list[int]
    numbers: list[int]
    """Vectors that only these versions use."""


class _Stored(NamedTuple):
    """A chunk that is already stored."""

    row: int
    version: int
    id: str
    number: int
    context: str
    text: str
    metadata: str


class Versions:
    """The versions of the documents of one index, in one transaction."""

    def __init__(self, sql: Sql, index_uid: int) -> None:
        self._sql, self._index_uid = sql, index_uid

    def stage(self, entries: Sequence[Entry], payload: Callable[[str], Any]) -> dict[int, Entry]:
        """Write chunks that no search finds yet.

        Args:
            entries: the chunks; no two of them have the same document, generation and id.
            payload: returns the part of a chunk's metadata, given as JSON, that the store receives.

        Returns:
            the chunks whose vectors the store does not have yet, by their numbers.

        Raises:
            StoreError: a generation is not newer than the live one, or has chunks in two languages.
        """
        languages: dict[tuple[str, int], str] = {}
        for entry in entries:
            language = languages.setdefault((entry.uri, entry.generation), entry.language)
            if language != entry.language:
                raise _two_languages(entry.uri, language, entry.language)
        versions = self._staged_versions(languages)
        there = [
            _Stored(*row)
            for row in self._run(
                "select row, version, id, number, context, text, metadata from catalog_chunks"
                " where space = :space and id in (:*ids)",
                ids=[entry.id for entry in entries],
            )
        ]
        self._tombstone_replaced(versions, entries, there)
        live = self._live_chunks(there)

        def reused(entry: Entry) -> int | None:
            before = live.get((entry.uri, entry.id, entry.language))
            if before is None or (before.context, before.text) != (entry.context, entry.text):
                return None
            return before.number if payload(before.metadata) == payload(entry.metadata) else None

        numbers = [reused(entry) for entry in entries]
        count = numbers.count(None)
        # Counted in a row that only grows: the number of a vector that is gone is never used again.
        ((following,),) = self._run(
            "update catalog_indexes set next_number = next_number + :count,"
            " entered = entered + :count where index_uid = :space returning next_number",
            count=count,
        )
        fresh = iter(range(following - count, following))
        new = {}
        rows = []
        for entry, reusable in zip(entries, numbers, strict=True):
            number = reusable
            if number is None:
                number = next(fresh)
                new[number] = entry
            rows.append(
                {
                    "space": self._index_uid,
                    "version": versions[entry.uri, entry.generation],
                    "number": number,
                    "id": entry.id,
                    "context": entry.context,
                    "text": entry.text,
                    "metadata": entry.metadata,
                }
            )
        self._sql.insert("catalog_chunks", rows)
        terms = [
            {
                "space": self._index_uid,
                "version": versions[entry.uri, entry.generation],
                "number": number,
                "terms": entry.terms,
            }
            for number, entry in new.items()
            if entry.terms is not None
        ]
        self._sql.insert("catalog_terms", terms)
        return new

    def publish(self, generations: Mapping[str, int]) -> dict[str, Change]:
        """Make these generations of documents live, in place of all others.

        If a generation was never staged, its document has no chunks afterwards.

        Raises:
            StoreError: a newer generation of one of the documents is already live.
        """
        rising: dict[int, str] = {}
        falling: dict[int, str] = {}
        stale: list[int] = []
        unseen = dict(generations)
        languages: Counter[str] = Counter()
        for version, uri, generation, state, language in self._run(
            "select version, uri, generation, state, language from catalog_versions"
            f" where space = :space and state <> {DEAD} and uri in (:*uris)",
            uris=list(generations),
        ):
            published = generations[uri]
            if generation == published:
                unseen.pop(uri)
                if state == STAGED:
                    rising[version] = uri
                    languages[language] += 1
            elif state == LIVE:
                if generation > published:
                    raise _older(uri, published, generation)
                falling[version] = uri
                languages[language] -= 1
            elif generation < published:
                stale.append(version)
        self._insert_versions(dict.fromkeys(unseen.items(), ""), LIVE)
        languages[""] += len(unseen)
        before, gone = self._members(falling)
        after, come = self._members(rising)
        # The words of chunks that are in both versions stay: rewriting them would be slow.
        fresh, dropped = come.keys() - gone.keys(), gone.keys() - come.keys()
        self.update_words(rising, fresh, dropped)
        self._update_terms(rising, fresh, dropped)
        self._set_state([*falling, *stale], DEAD)
        self._set_state(list(rising), LIVE)
        self._count(languages)
        more = sum(map(len, after.values())) - sum(map(len, before.values()))
        self._grow(more)
        changed = {*rising.values(), *falling.values()}
        return {
            uri: Change(
                len(after[uri] - before[uri]),
                len(before[uri] - after[uri]),
                len(after[uri] & before[uri]),
            )
            for uri in changed
        }

    def remove(self, uris: Sequence[str]) -> int:
        """Remove documents from searches, and return the number of their chunks."""
        rows = self._run(
            "select version, uri, state, language from catalog_versions"
            f" where space = :space and state <> {DEAD} and uri in (:*uris)",
            uris=list(uris),
        )
        live = {version: uri for version, uri, state, _ in rows if state == LIVE}
        members, gone = self._members(live)
        self.update_words({}, gone=gone.keys())
        self._update_terms({}, (), gone.keys())
        self._set_state([version for version, *_ in rows], DEAD)
        languages = Counter(language for version, *_, language in rows if version in live)
        self._count({language: -documents for language, documents in languages.items()})
        count = sum(map(len, members.values()))
        self._grow(-count)
        return count

    def next_generations(self, uris: Sequence[str]) -> dict[str, int]:
        """Return for each document a generation that is newer than all its generations."""
        query = (
            "select uri, max(generation) from catalog_versions"
            " where space = :space and uri in (:*uris) group by uri"
        )
        latest = dict(self._run(query, uris=list(uris)))
        return {uri: latest.get(uri, 0) + 1 for uri in uris}

    def live_documents(self) -> list[str]:
        """Return the uris of the documents that searches find."""
        query = f"select uri from catalog_versions where space = :space and state = {LIVE}"
        return [uri for (uri,) in self._run(query)]

    def abandon(self) -> None:
        """Mark the staged versions of an interrupted writer as dead. The lease must be held."""
        self._run(
            f"update catalog_versions set state = {DEAD} where space = :space and state = {STAGED}"
        )

    def collect_dead(self) -> Dead:
        """Return the dead versions; let searches that saw them live restart."""
        dead = f"select version from catalog_versions where space = :space and state = {DEAD}"
        versions = [version for (version,) in self._run(dead)]
        if not versions:
            return Dead([], [])
        self._run("update catalog_indexes set swept = version where index_uid = :space")
        # A chunk that did not change keeps its number in the next version, so a vector can be
        # deleted only when no version needs it.
        numbers = self._run(
            f"select distinct number from catalog_chunks as c where version in ({dead})"
            " and not exists (select 1 from catalog_chunks as other join catalog_versions as v"
            " on v.version = other.version where other.space = :space and other.number = c.number"
            f" and v.state <> {DEAD})"
        )
        return Dead(versions, [number for (number,) in numbers])

    def forget(self, dead: Dead) -> None:
        """Delete the chunks and versions whose vectors the store has deleted."""
        # Another thread may have deleted some in the meantime; these must not be counted twice.
        ((count,),) = self._run(
            "select count(distinct number) from catalog_chunks"
            " where version in (:*gone) and number in (:*numbers)",
            gone=dead.versions,
            numbers=dead.numbers,
        )
        self._run("delete from catalog_chunks where version in (:*gone)", gone=dead.versions)
        for table in ("catalog_versions", "catalog_terms"):
            self._run(f"delete from {table} where version in (:*gone)", gone=dead.versions)
        self._run(
            "delete from catalog_vectors where space = :space and number in (:*numbers)",
            numbers=dead.numbers,
        )
        self._run(
            "update catalog_indexes set entered = entered - :count where index_uid = :space",
            count=count,
        )

    def drop(self) -> None:
        """Delete everything of an index."""
        from lorebind_knowledge.catalog import postings

        postings.drop(self._sql, self._index_uid)
        for table in ("chunks", "versions", "languages", "vectors", "terms"):
            self._run(f"delete from catalog_{table} where space = :space")

    def _staged_versions(
        self, languages: Mapping[tuple[str, int], str]
    ) -> dict[tuple[str, int], int]:
        """Return the versions that chunks are staged into, by document and generation."""
        versions = {}
        for version, uri, generation, state, language in self._run(
            "select version, uri, generation, state, language from catalog_versions"
            f" where space = :space and state <> {DEAD} and uri in (:*uris)",
            uris=list({uri for uri, _ in languages}),
        ):
            versions[uri, generation] = version
            for other, number in languages:
                if state == LIVE and other == uri and number <= generation:
                    raise _older(uri, number, generation)
            if (expected := languages.get((uri, generation), language)) != language:
                raise _two_languages(uri, language, expected)
        missing = {key: language for key, language in languages.items() if key not in versions}
        return versions | self._insert_versions(missing, STAGED)

    def _insert_versions(
        self, languages: Mapping[tuple[str, int], str], state: int
    ) -> dict[tuple[str, int], int]:
        rows = [
            {
                "space": self._index_uid,
                "uri": uri,
                "generation": generation,
                "state": state,
                "language": language,
            }
            for (uri, generation), language in languages.items()
        ]
        self._sql.insert("catalog_versions", rows)
        inserted = self._run(
            "select uri, generation, version from catalog_versions"
            f" where space = :space and state = {state} and uri in (:*uris) order by version",
            uris=[uri for uri, _ in languages],
        )
        versions = {(uri, generation): version for uri, generation, version in inserted}
        return {key: versions[key] for key in languages}

    def _tombstone_replaced(
        self,
        versions: Mapping[tuple[str, int], int],
        entries: Sequence[Entry],
        stored: Iterable[_Stored],
    ) -> None:
        """Mark chunks as dead that were staged before in the same version under the same id."""
        replacing = {(versions[entry.uri, entry.generation], entry.id) for entry in entries}
        replaced = [chunk.row for chunk in stored if (chunk.version, chunk.id) in replacing]
        # Not deleted here: the store may have their vectors, and only dead versions are swept
        # there.
        if replaced:
            (grave,) = self._insert_versions({("", 0): ""}, DEAD).values()
            self._run(
                "update catalog_chunks set version = :grave where row in (:*rows)",
                grave=grave,
                rows=replaced,
            )

    def _live_chunks(self, stored: Sequence[_Stored]) -> dict[tuple[str, str, str], _Stored]:
        """Return the chunks that searches find, by document, id and language."""
        # No join: PostgreSQL might start it with all live versions.
        rows = self._run(
            "select version, uri, language from catalog_versions"
            f" where version in (:*versions) and state = {LIVE}",
            versions=list({chunk.version for chunk in stored}),
        )
        live = {version: (uri, language) for version, uri, language in rows}
        pairs = ((live[chunk.version], chunk) for chunk in stored if chunk.version in live)
        return {(uri, chunk.id, language): chunk for (uri, language), chunk in pairs}

    def _members(
        self, versions: Mapping[int, str]
    ) -> tuple[defaultdict[str, set[str]], dict[int, str]]:
        """Return the chunk ids of versions by document, and the documents of their vectors."""
        ids: defaultdict[str, set[str]] = defaultdict(set)
        numbers = {}
        for version, number, name in self._run(
            "select version, number, id from catalog_chunks where version in (:*versions)",
            versions=list(versions),
        ):
            ids[versions[version]].add(name)
            numbers[number] = versions[version]
        return ids, numbers

    def update_words(
        self,
        rising: Mapping[int, str],
        come: Collection[int] | None = None,
        gone: Collection[int] = (),
    ) -> None:
        """Write the words of passages that become live, and the numbers of those no longer live.

        Args:
            rising: the uris of the versions that become live.
            come: the numbers of their passages that become live; None means all.
            gone: the numbers of passages that no version uses now.
        """
        # It imports NumPy, which an ingest that changes nothing does not need.
        from lorebind_knowledge.catalog import postings

        rows = self._run(
            "select c.version, c.number, c.context, c.text, v.language from catalog_chunks as c"
            " join catalog_versions as v on v.version = c.version"
            " where c.version in (:*versions) order by c.row",
            versions=list(rising),
        )
        passages = [
            postings.words_of(number, rising[version], f"{context}\n{text}", language)
            for version, number, context, text, language in rows
            if come is None or number in come
        ]
        postings.write(self._sql, self._index_uid, postings.WORDS, passages, gone)

    def _update_terms(
        self, rising: Mapping[int, str], come: Collection[int], gone: Collection[int]
    ) -> None:
        """Write the terms of passages that become live, as `update_words` does for words."""
        from lorebind_knowledge.catalog import postings
        from lorebind_knowledge.catalog.segments import segments_of
        from lorebind_knowledge.catalog.terms import StoredTerms

        staged = "from catalog_terms where version in (:*versions)"
        passages = [
            StoredTerms.decode(terms).passage(number, rising[version])
            for version, number, terms in self._run(
                f"select version, number, terms {staged} order by row", versions=list(rising)
            )
            if number in come
        ]
        if passages or segments_of(self._sql, self._index_uid, postings.TERMS):
            postings.write(self._sql, self._index_uid, postings.TERMS, passages, gone)
        if passages:
            self._run(f"delete {staged}", versions=list(rising))

    def _set_state(self, versions: list[int], state: int) -> None:
        if versions:
            self._run(
                f"update catalog_versions set state = {state} where version in (:*versions)",
                versions=versions,
            )

    def _count(self, documents: Mapping[str, int]) -> None:
        """Add to the number of live documents in each language."""
        rows = [
            {"space": self._index_uid, "language": language, "documents": count}
            for language, count in documents.items()
            if count
        ]
        self._sql.insert("catalog_languages", rows, _ADDED)

    def count_again(self) -> None:
        """Count the live documents in each language."""
        self._run("delete from catalog_languages where space = :space")
        self._run(
            "insert into catalog_languages (space, language, documents)"
            " select space, language, count(*) from catalog_versions"
            f" where space = :space and state = {LIVE} group by space, language"
        )

    def _grow(self, chunks: int) -> None:
        """Increment the version of the index, and add to its number of live chunks."""
        self._run(
            "update catalog_indexes set version = version + 1, live = live + :chunks"
            " where index_uid = :space",
            chunks=chunks,
        )

    def _run(self, statement: str, **values: Any) -> list[Any]:
        return self._sql.run(statement, space=self._index_uid, **values)


def _two_languages(uri: str, a: str, b: str) -> StoreError:
    """Return the error. Words added by one language could not be removed by the other."""
    return StoreError(
        f"{uri!r}: one generation of a document cannot be in two languages, {a!r} and {b!r}; "
        "stage it as another generation"
    )


def _older(uri: str, other: int, live: int) -> StoreError:
    return StoreError(
        f"{uri!r}: generation {other} is not newer than generation {live}, which searches find; "
        "another writer has published in the meantime; run the ingest again"
    )
