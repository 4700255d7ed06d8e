"""Changing one index in Qdrant: staging, publishing, deleting, each step safe to be cut off at."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.stores.qdrant.connection import collection_exists, qdrant
from lorebind_knowledge.stores.qdrant.lexical import sparse_weights
from lorebind_knowledge.stores.qdrant.points import (
    NEVER,
    OURS,
    blocks,
    is_visible,
    payload,
    point_id,
    requests,
    vectors,
    where_field,
)
from lorebind_knowledge.stores.stems import count_stems

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Sequence

    from lorebind_knowledge.namespace import IndexKey
    from lorebind_knowledge.records import RecordFilter
    from lorebind_knowledge.stores.checks import Entry
    from lorebind_knowledge.stores.qdrant.heads import Head, Heads
    from lorebind_knowledge.stores.qdrant.points import Points

_MARKED_AT_ONCE = 5000


class IndexWriter:
    """Changes one index. There is one at a time, for one change."""

    def __init__(self, heads: Heads, points: Points, index: IndexKey, head: Head) -> None:
        self._heads, self._points = heads, points
        self._index, self._head = index, head

    def stage(self, entries: Sequence[Entry]) -> None:
        """Write records beside what is published. Each has two places, one of which is free."""
        words = count_stems([entry.searched for entry in entries])
        if not self._head.usual_tokens:
            tokens = sum(counted.total() for counted in words)
            self._put(replace(self._head, usual_tokens=max(tokens / len(entries), 1.0)))
        head, points = self._head, self._points
        places = {
            point_id(head.birth, entry, copy): (at, copy)
            for at, entry in enumerate(entries)
            for copy in (0, 1)
        }
        live, stale = {}, []
        for point in points.retrieve(list(places), ("since", "until")):
            at, copy = places[point.id]
            if is_visible(point, head.version):
                live[at] = copy
            elif copy == 1:
                stale.append(point.id)
        made = [
            self._point(entry, copy=1 if live.get(at) == 0 else 0, words=counted)
            for at, (entry, counted) in enumerate(zip(entries, words, strict=True))
        ]
        written: list[str] = []
        try:
            for part in requests(made):
                points.upsert(part)
                written += [point.id for point in part]
        except StoreError:
            with suppress(StoreError):  # what is left is staged, and a rerun writes it again
                points.delete_ids(written)
            raise
        points.delete_ids(sorted(set(stale) - {point.id for point in made}))

    def publish(self, uri: str, generation: int) -> None:
        """Let readers see this generation of a document and none other."""
        self._settle()
        known = list(self._records(uri))
        live = [point for point in known if is_visible(point, self._head.version)]
        waiting = [point for point in known if point not in live]
        rising = _newest(
            point for point in waiting if point.payload[OURS]["generation"] == generation
        )
        replaced = {_identity(point) for point in rising}
        falling = [
            point
            for point in live
            if point.payload[OURS]["generation"] != generation or _identity(point) in replaced
        ]
        if rising or falling:
            self._switch(rising, falling)
            # What was staged again since is newer than what was published.
            twins = {_identity(point) for point in waiting}
            old = [point.id for point in falling if _identity(point) in twins]
            self._points.delete_ids(old)

    def delete(self, filter: RecordFilter) -> int:  # noqa: A002 - the protocol's own word
        """Delete records. Those that readers see vanish for them in one step, and then go."""
        self._settle()
        known = [
            point
            for point in self._records(filter.uri)
            if filter.generation in (None, point.payload[OURS]["generation"])
            and filter.except_generation != point.payload[OURS]["generation"]
        ]
        falling = [point for point in known if is_visible(point, self._head.version)]
        if falling:
            self._switch([], falling)
        self._points.delete_ids([point.id for point in known])
        return len(known)

    def drop(self) -> None:
        """Remove the index; readers do not find it from the first moment."""
        self._put(replace(self._head, dropped=True))
        if collection_exists(self._points.connection, self._points.collection):
            models = qdrant("qdrant_client.models")
            self._points.delete(models.Filter(must=[where_field("index", self._head.birth)]))
        self._heads.remove(self._index)

    def _settle(self) -> None:
        """Remove the marks of a version that was begun and never came."""
        if not self._head.pending:
            return
        filters = qdrant("qdrant_client.models").Filter
        ours = where_field("index", self._head.birth)
        begun = filters(must=[ours, where_field("since", gt=self._head.version, lt=NEVER)])
        ended = filters(must=[ours, where_field("until", gt=self._head.version, lt=NEVER)])
        self._points.mark([({"since": NEVER, "until": NEVER}, begun), ({"until": NEVER}, ended)])
        self._put(replace(self._head, pending=False))

    def _switch(self, rising: Sequence[Any], falling: Sequence[Any]) -> None:
        """Mark what changes with the next version, then make it the one that readers see."""
        head = self._head
        coming = head.version + 1
        self._put(replace(head, pending=True))
        up = [point.id for point in rising]
        down = [point.id for point in falling]
        self._points.mark(
            [
                *(({"since": coming, "until": NEVER}, ids) for ids in blocks(up, _MARKED_AT_ONCE)),
                *(({"until": coming}, ids) for ids in blocks(down, _MARKED_AT_ONCE)),
            ]
        )
        self._put(
            replace(
                head,
                version=coming,
                pending=False,
                records=head.records + len(rising) - len(falling),
                tokens=head.tokens + _tokens(rising) - _tokens(falling),
            )
        )

    def _put(self, head: Head) -> None:
        self._heads.put(self._index, head)
        self._head = head

    def _records(self, uri: str | None) -> Iterator[Any]:
        """All of the index or of one document, staged and published."""
        conditions = [where_field("index", self._head.birth)]
        if uri is not None:
            conditions.append(where_field("uri", uri))
        condition = qdrant("qdrant_client.models").Filter(must=conditions)
        fields = ("id", "uri", "generation", "since", "until", "tokens")
        return self._points.scroll(condition, fields)

    def _point(self, entry: Entry, *, copy: int, words: Counter[str]) -> Any:
        birth = self._head.birth
        return qdrant("qdrant_client.models").PointStruct(
            id=point_id(birth, entry, copy),
            vector=vectors(entry, sparse_weights(words, self._head.usual_tokens)),
            payload=payload(self._index, birth, entry, json.loads(entry.metadata), words),
        )


def _identity(point: Any) -> tuple[str, str, int]:
    ours = point.payload[OURS]
    return ours["uri"], ours["id"], ours["generation"]


def _newest(points: Iterable[Any]) -> list[Any]:
    """One point of each identity; of two, one was cut off from being deleted, the older."""
    newest: dict[tuple[str, str, int], Any] = {}
    for point in sorted(points, key=lambda point: point.payload[OURS]["since"]):
        newest[_identity(point)] = point
    return list(newest.values())


def _tokens(points: Iterable[Any]) -> int:
    return sum(point.payload[OURS]["tokens"] for point in points)
