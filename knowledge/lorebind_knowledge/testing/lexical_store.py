"""The conformance tests of `LexicalStore`, for a store that is a `VectorStore` too."""

from __future__ import annotations

import pytest

from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.namespace import IndexKey
from lorebind_knowledge.stores.base import LexicalStore, VectorStore
from lorebind_knowledge.testing.store_driver import INDEX, Driver, StoreConformance, ids, record

LIBRARY = {
    "a": "The engine must be serviced every year by a mechanic.",
    "b": "Engines, engines and more engines: a mechanic's life.",
    "c": "A bakery opens early and sells bread.",
    "d": "Bread rises slowly in a cold kitchen.",
    "e": "The kitchen is closed on Mondays.",
    "f": "Tickets are sold at the entrance.",
}


class LexicalStoreConformance(StoreConformance):
    """What every `LexicalStore` does. Inherit it and give a fixture `store`, an empty one."""

    @pytest.fixture
    async def to(self, store: VectorStore) -> Driver:
        driver = Driver(store)
        await driver.open()
        await driver.add(
            *(record(name, text=text, vowel=name in "ae") for name, text in LIBRARY.items())
        )
        return driver

    async def test_is_a_lexical_store(self, store: VectorStore) -> None:
        """The store has the method of the protocol."""
        assert isinstance(store, LexicalStore)

    async def test_any_word_is_enough(self, to: Driver) -> None:
        """Records with one of the words are found, whatever their form, the best first."""
        found = await to.lexical("Which mechanic services an engine?")
        assert ids(found)[0] == "a"
        assert set(ids(found)) == {"a", "b"}

    async def test_scores(self, to: Driver) -> None:
        """BM25 is positive and raw beside the score, which is relative to the best one's."""
        found = await to.lexical("bread kitchen")
        assert ids(found)[0] == "d"
        assert found[0].score == 1.0
        best = found[0].scores["lexical"]
        for match in found:
            assert match.scores["lexical"] > 0
            assert match.score == pytest.approx(match.scores["lexical"] / best, abs=1e-6)
        assert found == sorted(found, key=lambda match: (-match.score, match.id))

    async def test_repeated_words_weigh_more(self, to: Driver) -> None:
        """A word that the question repeats counts each time."""
        once = await to.lexical("bread tickets")
        often = await to.lexical("bread tickets tickets tickets")
        assert ids(often)[0] == "f"
        assert often[0].scores["lexical"] > next(m for m in once if m.id == "f").scores["lexical"]

    @pytest.mark.parametrize("query", ["", "  ", "the of a", "?!", "x", "__", '"'])
    async def test_query_without_words(self, to: Driver, query: str) -> None:
        """A query in which there is nothing to look for finds nothing."""
        assert await to.lexical(query) == []

    @pytest.mark.parametrize(
        "query",
        [
            'bread" OR "x',
            "bread AND NOT",
            "bread*",
            "text:bread",
            "NEAR(bread)",
            "(bread",
            "bread'",
        ],
    )
    async def test_query_is_no_syntax(self, to: Driver, query: str) -> None:
        """Operators and quotes of a search language are words or nothing, never an error."""
        assert set(ids(await to.lexical(query))) == {"c", "d"}

    async def test_long_query(self, to: Driver) -> None:
        """A whole page can be the query."""
        query = " ".join(f"word{at}" for at in range(3000)) + " bread"
        assert set(ids(await to.lexical(query))) == {"c", "d"}

    async def test_ties_and_prefix(self, to: Driver) -> None:
        """Equal texts tie and go by id; fewer are a prefix of more."""
        names = ["m", "k", "z", "l"]
        await to.add(*(record(name, uri="same.md", text="purple tickets") for name in names))
        everything = await to.lexical("purple tickets")
        assert ids(everything) == ["k", "l", "m", "z", "f"]
        for top_k in range(1, 7):
            assert await to.lexical("purple tickets", top_k=top_k) == everything[:top_k]

    async def test_only_what_is_published(self, to: Driver) -> None:
        """Staged and superseded records are not found, and do not change the figures."""
        before = await to.lexical("bread")
        await to.upsert(record("n", generation=2, text="new bread"))
        assert await to.lexical("bread") == before
        await to.publish(generation=2)
        assert ids(await to.lexical("bread kitchen")) == ["n"]
        await to.publish(generation=1)
        assert await to.lexical("bread") == before
        await to.delete()
        assert await to.lexical("bread") == []

    async def test_filter(self, to: Driver) -> None:
        """The metadata filter comes before the cut, and the best that passes has the score 1."""
        found = await to.lexical("engines mechanic kitchen", top_k=1, where={"vowel": True})
        assert [match.score for match in found] == [1.0]
        assert found[0].id in "ae"
        assert found[0].metadata == {"vowel": True}

    async def test_among_some(self, to: Driver) -> None:
        """Among some records only, their figures are what they are among all."""
        query = "engines mechanic bread kitchen"
        figures = {match.id: match.scores["lexical"] for match in await to.lexical(query)}
        found = await to.lexical(query, among=["c", "e", "nobody"])
        assert set(ids(found)) == {"c", "e"}
        for match in found:
            assert match.scores["lexical"] == pytest.approx(figures[match.id], abs=1e-6)
        assert await to.lexical(query, among=[]) == []

    async def test_min_score_is_not_applied(self, to: Driver) -> None:
        """A threshold for cosines says nothing about words."""
        assert await to.lexical("bread", min_score=1.1) == await to.lexical("bread")

    async def test_indexes_do_not_see_each_other(self, to: Driver) -> None:
        """Words of another index are not found, and do not change the figures."""
        neighbour = IndexKey(INDEX.namespace, 2)
        before = await to.lexical("bread kitchen")
        await to.open(neighbour)
        await to.add(record("a", index=neighbour, text="bread"))
        assert await to.lexical("bread kitchen") == before
        assert ids(await to.lexical("bread", index=neighbour)) == ["a"]
        assert "a" not in ids(await to.lexical("bread"))

    async def test_errors(self, to: Driver) -> None:
        """An unopened index, a malformed filter and a top_k of 0 are errors."""
        with pytest.raises(StoreError):
            await to.lexical("bread", index=IndexKey(INDEX.namespace, 9))
        with pytest.raises(UsageError):
            await to.lexical("bread", where={"$nor": []})
        with pytest.raises(UsageError):
            await to.lexical("bread", top_k=0)
