"""After any operations, indexes over different stores give the expected results."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lorebind_config.errors import StoreError
from lorebind_config.filters import compile_filter
from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.cosines import score_of
from lorebind_knowledge.records import Record
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.stores.sqlite import SqliteStore
from lorebind_knowledge.testing.index_driver import HERE, Driver, ids, record
from tests.density import examples

ELSEWHERE = replace(HERE, tenant="other")
namespaces = st.sampled_from([HERE, ELSEWHERE])
uris = st.sampled_from(["a", "b", "c"])
generations = st.integers(1, 4)
vectors = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=3, max_size=3)
words = st.sampled_from(["bread", "milk", "old bread", "bread and milk"])
wheres = st.sampled_from([{}, {"n": 1}, {"n": {"$gt": 1}}, {"$not": {"tags": "x"}}])


class Expected:
    """The expected contents of one knowledge base."""

    def __init__(self) -> None:
        self.live: dict[str, tuple[int, dict[str, Record]]] = {}
        self.staged: dict[tuple[str, int], dict[str, Record]] = {}

    def may_be_live(self, uri: str, generation: int) -> bool:
        return uri not in self.live or generation > self.live[uri][0]

    def publish(self, uri: str, generation: int) -> None:
        if self.may_be_live(uri, generation):
            self.live[uri] = generation, self.staged.get((uri, generation), {})
            self.forget(uri, generation)

    def forget(self, uri: str, generation: int) -> None:
        for other, staged in list(self.staged):
            if other == uri and staged <= generation:
                del self.staged[other, staged]

    @property
    def chunks(self) -> list[Record]:
        return [chunk for _, chunks in self.live.values() for chunk in chunks.values()]


class Indexes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.indexes = [Driver(MemoryStore(), Catalog()), self.in_a_file()]
        self.expected: dict[Namespace, Expected] = {}

    def in_a_file(self) -> Driver:
        path = Path(self.folder, "lorebind.db")
        return Driver(SqliteStore(path), Catalog(path))

    @initialize()
    def open(self) -> None:
        for namespace in (HERE, ELSEWHERE):
            self.open_one(namespace)

    def open_one(self, namespace: Namespace) -> None:
        for to in self.indexes:
            to.open(namespace, 3)
        self.expected[namespace] = Expected()

    def both(self, method: str, *args: Any, **options: Any) -> Any:
        """Return the results of both indexes."""
        first, second = (self.answer(to, method, *args, **options) for to in self.indexes)
        assert first == second
        return first

    def answer(self, to: Driver, method: str, *args: Any, **options: Any) -> Any:
        try:
            return getattr(to, method)(*args, **options)
        except StoreError as error:
            return str(error)

    @rule(
        namespace=namespaces,
        uri=uris,
        generation=generations,
        chunks=st.lists(
            st.tuples(st.integers(0, 4), vectors, words, st.integers(0, 2)), max_size=5
        ),
    )
    def stage(self, namespace: Namespace, uri: str, generation: int, chunks: list[Any]) -> None:
        records = [
            record(
                f"{uri}{number}", values, uri=uri, generation=generation, text=text, n=n,
                tags=["x"] * n, page=number,
            )
            for number, values, text, n in chunks
        ]  # fmt: skip
        answer = self.both("stage", *records, namespace=namespace)
        expected = self.expected[namespace]
        if not records or expected.may_be_live(uri, generation):
            assert answer is None
            if records:
                staged = expected.staged.setdefault((uri, generation), {})
                staged.update((record.id, record) for record in records)
        else:
            assert "is not newer" in answer

    @rule(namespace=namespaces, uri=uris, generation=generations)
    def publish(self, namespace: Namespace, uri: str, generation: int) -> None:
        answer = self.both("publish", uri, generation, namespace)
        expected = self.expected[namespace]
        if isinstance(answer, str):
            assert "is not newer" in answer
            assert generation < expected.live[uri][0]
        else:
            expected.publish(uri, generation)

    @rule(namespace=namespaces, gone=st.sets(uris))
    def remove(self, namespace: Namespace, gone: set[str]) -> None:
        expected = self.expected[namespace]
        count = sum(len(expected.live.pop(uri, (0, {}))[1]) for uri in gone)
        for uri in gone:
            expected.forget(uri, 99)
        assert self.both("remove", *gone, namespace=namespace) == count

    @rule(namespace=namespaces, abandon=st.booleans())
    def sweep(self, namespace: Namespace, abandon: bool) -> None:
        self.both("sweep", namespace, abandon=abandon)
        expected = self.expected[namespace]
        if abandon:
            expected.staged = {}
        if not expected.staged:
            for to in self.indexes:
                assert to.store_count(to.entry(namespace)) == len(expected.chunks)

    @rule(namespace=namespaces)
    def drop_and_open(self, namespace: Namespace) -> None:
        for to in self.indexes:
            to.drop(to.entry(namespace))
        self.open_one(namespace)

    @rule()
    def reopen(self) -> None:
        self.indexes[1].close()
        self.indexes[1] = self.in_a_file()

    @rule(namespace=namespaces, values=vectors, k=st.integers(1, 9), where=wheres)
    def search(self, namespace: Namespace, values: list[float], k: int, where: Any) -> None:
        hits = self.both("search", values, k, where, namespace)
        allows = compile_filter(where)
        passing = [chunk for chunk in self.expected[namespace].chunks if allows(chunk.metadata)]
        ranked = sorted((-score_of(_cosine(chunk, values)), chunk.id) for chunk in passing)
        assert [(-match.score, match.id) for match in hits] == ranked[:k]
        chunks = {chunk.id: chunk for chunk in passing}
        for match in hits:
            assert match.text == chunks[match.id].text
            assert match.metadata == chunks[match.id].metadata

    @rule(namespace=namespaces, question=words, where=wheres)
    def words(self, namespace: Namespace, question: str, where: Any) -> None:
        hits = self.both("words", question, 99, where, namespace)
        allows = compile_filter(where)
        terms = set(question.split()) - {"and"}
        assert sorted(ids(hits)) == sorted(
            chunk.id
            for chunk in self.expected[namespace].chunks
            if allows(chunk.metadata) and terms & set(chunk.text.split())
        )

    @invariant()
    def counts(self) -> None:
        for namespace, expected in self.expected.items():
            assert self.both("count", namespace) == len(expected.chunks)

    def teardown(self) -> None:
        for to in self.indexes:
            for namespace in self.expected:
                to.sweep(namespace, abandon=True)
                to.agree(namespace)
            to.close()
        shutil.rmtree(self.folder)


def _cosine(record_: Record, values: list[float]) -> float:
    first, second = record_.vector.astype(np.float64), np.array(values)
    length = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / length if length else 0.0


TestIndexes = Indexes.TestCase
TestIndexes.settings = settings(max_examples=examples(25), stateful_step_count=25, deadline=None)
