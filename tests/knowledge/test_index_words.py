"""Searching an index by words: BM25 over its live chunks only."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import log

import numpy as np
import pytest

from lorebind_config.errors import StoreError, UsageError
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.versions import LIVE
from lorebind_knowledge.index import matches, postings_cache, words
from lorebind_knowledge.index.index import Index, NoIndexError
from lorebind_knowledge.index.view import View
from lorebind_knowledge.records import Record
from lorebind_knowledge.testing.index_driver import HERE, Driver, ids, record
from lorebind_knowledge.text.terms import VERSION, index_terms, query_terms

from .every_catalog import OnEveryCatalog

LIBRARY = {
    "a": "The engine must be serviced every year by a mechanic.",
    "b": "Engines, engines and more engines: a mechanic's life.",
    "c": "A bakery opens early and sells bread.",
    "d": "Bread rises slowly in a cold kitchen.",
    "e": "The kitchen is closed on Mondays.",
    "f": "Tickets are sold at the entrance.",
}


def books(uri: str = "a.md", generation: int = 1) -> list[Record]:
    return [
        record(name, uri=uri, generation=generation, text=text, vowel=name in "ae")
        for name, text in LIBRARY.items()
    ]


def document_figures(to: Driver, question: str) -> dict[str, float]:
    """Return the BM25 of all documents by uri, after checking that their chunks agree."""

    def ask(view: View) -> dict[str, float]:
        _, numbers = view.rows()
        figures = view.document_scores(question, numbers)
        chunks = view.chunks(numbers.tolist())
        scores: dict[str, set[float]] = {}
        for number, figure in zip(numbers.tolist(), figures.tolist(), strict=True):
            scores.setdefault(chunks[number].uri, set()).add(round(figure, 9))
        assert all(len(same) == 1 for same in scores.values())
        return {uri: same.pop() for uri, same in scores.items()}

    return to.index.read(HERE, ask)


def counted_languages(view: View) -> dict[str, int]:
    """Return the number of live documents by language, counted one by one."""
    return Counter(
        language
        for state, language in view._run(
            "select state, language from catalog_versions where space = :space"
        )
        if state == LIVE
    )


def by_hand(live: dict[str, list[Record]], question: str) -> dict[str, float]:
    """Return the BM25 of documents, computed from all their chunks by the formula."""
    words = {
        uri: Counter(
            word
            for chunk in chunks
            for word in index_terms(f"{chunk.context}\n{chunk.text}", chunk.language).split()
        )
        for uri, chunks in live.items()
        if chunks
    }
    average = sum(word.total() for word in words.values()) / len(words)
    figures = dict.fromkeys(words, 0.0)
    for word, weight in query_terms(question, ["en"]).items():
        having = sum(word in counts for counts in words.values())
        idf = max(log((len(words) - having + 0.5) / (having + 0.5)), 1e-6)
        for uri, counts in words.items():
            times = counts[word]
            norm = 1.2 * (0.25 + 0.75 * counts.total() / average)
            figures[uri] += weight * idf * times * 2.2 / (times + norm)
    return figures


class TestWords(OnEveryCatalog):
    @pytest.fixture(autouse=True)
    def library(self, to: Driver) -> None:
        to.open()
        to.add(*books())

    def test_any_word_is_enough(self, to: Driver) -> None:
        """Chunks with any form of any of the words are found, best first."""
        hits = to.words("Which mechanic services an engine?")
        assert ids(hits)[0] == "a"
        assert set(ids(hits)) == {"a", "b"}

    def test_figures(self, to: Driver) -> None:
        """BM25 is positive; matches are sorted by their share of the best."""
        hits = to.words("bread kitchen")
        assert ids(hits)[0] == "d"
        assert hits[0].score == 1.0
        assert all(match.figure > 0 for match in hits)
        assert hits == sorted(hits, key=lambda match: (-match.score, match.id))

    def test_repeated_words_weigh_more(self, to: Driver) -> None:
        """A word that the question repeats counts each time."""
        once = to.words("bread tickets")
        often = to.words("bread tickets tickets tickets")
        assert ids(often)[0] == "f"
        assert often[0].figure > next(match for match in once if match.id == "f").figure

    @pytest.mark.parametrize("question", ["", "  ", "the of a", "?!", "x", "__", '"'])
    def test_question_without_words(self, to: Driver, question: str) -> None:
        """A question without searchable words finds nothing."""
        assert to.words(question) == []

    @pytest.mark.parametrize(
        "question",
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
    def test_question_is_no_syntax(self, to: Driver, question: str) -> None:
        """Operators and quotes of a search language are words or ignored, and never an error."""
        assert set(ids(to.words(question))) == {"c", "d"}

    def test_long_question(self, to: Driver) -> None:
        """A whole page can be the question."""
        question = " ".join(f"word{at}" for at in range(3000)) + " bread"
        assert set(ids(to.words(question))) == {"c", "d"}

    def test_ties_and_prefix(self, to: Driver) -> None:
        """Equal texts tie and are sorted by id; fewer results are a prefix of more."""
        names = ["m", "k", "z", "l"]
        to.add(*(record(name, uri="same.md", text="purple tickets") for name in names))
        everything = to.words("purple tickets")
        assert ids(everything) == ["k", "l", "m", "z", "f"]
        for k in range(1, 7):
            assert to.words("purple tickets", k) == everything[:k]

    def test_contexts_are_searched(self, to: Driver) -> None:
        """The words of a chunk's context are found, but are no part of its text."""
        to.add(record("n", uri="n.md", text="It is red.", context="Fire engines"))
        assert "n" in ids(to.words("fire"))
        assert to.words("fire")[0].text == "It is red."

    def test_only_what_is_live(self, to: Driver) -> None:
        """Staged and replaced chunks are not found, and do not change BM25."""
        before = to.words("bread kitchen")
        to.stage(record("n", generation=2, text="new bread"))
        assert to.words("bread kitchen") == before
        to.publish(generation=2)
        assert ids(to.words("bread kitchen")) == ["n"]
        to.add(*books(generation=3))
        assert to.words("bread kitchen") == before
        to.remove("a.md")
        assert to.words("bread") == []

    def test_filter(self, to: Driver) -> None:
        """The filter applies before the limit, and the best chunk that passes has the score 1."""
        hits = to.words("engines mechanic kitchen", k=1, where={"vowel": True})
        assert [match.score for match in hits] == [1.0]
        assert hits[0].id in "ae"
        assert hits[0].metadata == {"vowel": True}
        assert ids(to.words("engines mechanic kitchen", where={"vowel": True})) == ["a", "e"]
        assert to.words("engines", where={"vowel": None}) == []

    def test_figures_of_others(self, to: Driver) -> None:
        """Any chunk's BM25 can be requested: it is 0 without any of the words."""
        question = "engines mechanic bread kitchen"
        numbers = np.array([*(chunk.number for chunk in to.fetch(*LIBRARY).values()), 10**6])
        figures = {match.id: match.figure for match in to.words(question)}
        scores = to.index.read(HERE, lambda view: view.bm25_scores(question, numbers))
        expected = [figures.get(name, 0.0) for name in to.fetch(*LIBRARY)]
        assert scores.tolist() == pytest.approx([*expected, 0.0])
        assert 0 < len(figures) < len(LIBRARY)

    def test_a_chunk_that_is_gone_and_comes_again(self, to: Driver) -> None:
        """A chunk that the next generation lacks is found again in the one after."""
        to.stage(record("x", uri="n.md", generation=1, text="lanterns"))
        to.publish("n.md", 1)
        to.stage(record("y", uri="n.md", generation=2, text="lamps"))
        to.stage(record("x", uri="n.md", generation=3, text="lanterns"))
        to.publish("n.md", 2)
        assert ids(to.words("lantern")) == []
        to.publish("n.md", 3)
        assert ids(to.words("lantern")) == ["x"]
        assert ids(to.words("lamp")) == []

    def test_indexes_do_not_see_each_other(self, to: Driver) -> None:
        """Words of another index are not found, and do not change BM25."""
        before = to.words("bread kitchen")
        neighbour = replace(HERE, kb="other")
        to.open(neighbour)
        to.add(record("g", text="bread"), namespace=neighbour)
        successor = to.build()
        to.index.stage(to.lease(), successor, [record("h", text="bread")])
        to.index.publish(to.lease(), successor, {"a.md": 1})
        assert to.words("bread kitchen") == before
        assert ids(to.words("bread", namespace=neighbour)) == ["g"]
        to.catalog.ledger.activate_index(to.lease(), successor.key)
        assert ids(to.words("bread")) == ["h"]

    def test_documents(self, to: Driver) -> None:
        """A document has the words of all its chunks; rarity is counted over documents."""
        live = {
            "a.md": books(),
            "b.md": [record(f"b{n}", uri="b.md", text=f"bread {n}") for n in range(3)],
            "c.md": [record("c", uri="c.md", text="tickets and an engine")],
        }
        for name in "defghi":
            live[f"{name}.md"] = [record(name, uri=f"{name}.md", text=f"nothing but {name}{name}")]
        to.add(*(chunk for uri, chunks in live.items() if uri != "a.md" for chunk in chunks))
        figures = document_figures(to, "bread tickets")
        assert figures == pytest.approx(by_hand(live, "bread tickets"), abs=1e-8)
        assert figures["b.md"] > figures["a.md"] > 0.1
        assert set(document_figures(to, "the of a").values()) == {0.0}
        assert set(document_figures(to, "unheard").values()) == {0.0}

    def test_figures_of_a_whole_question(self, to: Driver) -> None:
        """A text with all words counts all their rarities, also those of words in no text."""
        to.add(record("g", uri="b.md", text="bread"))
        question = "bread bread mechanic unheard"

        def full(question: str) -> tuple[float, float]:
            def ask(view: View) -> tuple[float, float]:
                words = view.words(question)
                return words.full_passage(), words.full_document()

            return to.index.read(HERE, ask)

        passages = 2 * log(4.5 / 3.5) + log(5.5 / 2.5) + log(7.5 / 0.5)
        documents = 2 * 1e-6 + 1e-6 + log(2.5 / 0.5)
        assert full(question) == pytest.approx((passages, documents))
        assert full("the of a") == (0, 0)

    def test_errors(self, to: Driver) -> None:
        """A knowledge base without an index, a malformed filter and a k of 0 are errors."""
        with pytest.raises(NoIndexError):
            to.words("bread", namespace=replace(HERE, kb="none"))
        with pytest.raises(UsageError):
            to.words("bread", where={"$nor": []})
        with pytest.raises(UsageError, match="top_k"):
            to.words("bread", k=0)

    def test_languages(self, to: Driver) -> None:
        """Documents in several languages are found by word forms of their own language."""
        to.add(
            replace(record("de", uri="de.md", text="Die Häuser am Fluss"), language="de"),
            replace(record("fr", uri="fr.md", text="les chevaux du roi"), language="fr"),
            record("ja", uri="ja.md", text="東京タワーへ行きました"),
        )
        assert ids(to.words("Haus")) == ["de"]
        assert ids(to.words("cheval")) == ["fr"]
        assert ids(to.words("タワー")) == ["ja"]
        assert ids(to.words("bakeries")) == ["c"]

    def test_another_language(self, to: Driver) -> None:
        """The same text in another language is another chunk, with other words."""
        to.add(record("n", uri="n.md", text="Häuser"))
        assert to.words("Haus") == []
        to.add(replace(record("n", uri="n.md", text="Häuser", generation=2), language="de"))
        assert ids(to.words("Haus")) == ["n"]
        to.remove("n.md")
        assert to.words("Haus Häuser") == []

    def test_one_generation_has_one_language(self, to: Driver) -> None:
        """A generation in two languages is refused: its words could not be removed again."""
        first = record("n", uri="n.md", text="Häuser")
        other = replace(record("o", uri="n.md", text="Häuser"), language="de")
        with pytest.raises(StoreError, match=r"'n.md': one generation .* 'en' and 'de'"):
            to.stage(first, other)
        to.stage(first)
        with pytest.raises(StoreError, match="two languages"):
            to.stage(other)
        to.publish("n.md")
        assert ids(to.words("Häuser")) == ["n"]

    def test_without_any_words(self, to: Driver) -> None:
        """An index without chunks, or with empty texts only, finds nothing."""
        to.remove("a.md")
        assert document_figures(to, "bread") == {}
        neighbour = replace(HERE, kb="empty")
        to.open(neighbour)
        to.publish("empty.md", namespace=neighbour)
        assert to.words("bread", namespace=neighbour) == []
        none = np.zeros(0, np.int64)
        assert not len(to.index.read(neighbour, lambda view: view.document_scores("bread", none)))
        to.add(record("e", uri="e.md", text=""))
        assert document_figures(to, "bread") == {"e.md": 0.0}

    def test_an_index_of_an_earlier_version(
        self, to: Driver, make_catalog: Callable[[], Catalog]
    ) -> None:
        """Texts that an earlier version tokenized differently are tokenized again on opening."""
        german = "Der Weg zu den Häusern ist nicht weit, und er ist auch nicht steil."
        to.add(record("de", uri="de.md", text=german))
        assert to.words("Haus") == []
        before = to.words("bread kitchen")
        with to.catalog._database.writing() as sql:
            sql.run("update catalog_indexes set words = 0")
            sql.run("delete from catalog_segments")
        if make_catalog() is to.catalog:
            return  # a catalog in memory is always of this version
        to.catalog.close()
        again = make_catalog()
        with again.reading() as sql:
            assert sql.run("select distinct words from catalog_indexes") == [(VERSION,)]
        to.index = Index(to.store, again)
        assert ids(to.words("Haus")) == ["de"]
        assert ids(to.words("bread kitchen")) == ids(before)

    def test_a_bounded_number_of_places_is_remembered(
        self, to: Driver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The least recently used words are forgotten, and found again."""
        questions = ["bread kitchen", "engines mechanic", "tickets", "bread"]
        answers = [to.words(question) for question in questions]
        monkeypatch.setattr(postings_cache, "_MAX_BYTES", 2000)
        to.add(record("n", uri="n.md", text="nothing of that"))
        to.remove("n.md")  # a new version, of which nothing is cached yet
        for _ in range(2):
            assert [to.words(question) for question in questions] == answers
            (words,) = to.index._memory._words.values()
            cache = words.cache
            assert 0 < sum(held.size for held in cache._packed.values()) == cache._size <= 2000
            assert "bread" in cache._terms

    @pytest.mark.parametrize("seed", range(4))
    def test_figures_are_those_of_a_fresh_index(
        self, to: Driver, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After any edits, removals and interruptions, BM25 is that of a new index."""
        if seed % 2:  # as in an index of a million passages
            for module in (matches, words):
                monkeypatch.setattr(module, "MANY", 2)
        case = random.Random(seed)
        vocabulary = [
            "bread",
            "kitchen",
            "engine",
            "mechanic",
            "ticket",
            "entrance",
            "bakery",
            "year",
        ]
        lasting = record("last", uri="last.md", text="bread, kitchen and engine")
        to.add(lasting)
        live: dict[str, list[Record]] = {"a.md": books(), "last.md": [lasting]}
        for generation in range(2, 40):
            uri = case.choice(["a.md", "b.md", "c.md"])
            chunks = [
                record(
                    f"{uri} {case.randrange(9)}",
                    uri=uri,
                    generation=generation,
                    text=" ".join(case.choices(vocabulary, k=case.randrange(1, 30))),
                    context=case.choice(["", "Kitchen", "Engine room"]),
                )
                for _ in range(case.randrange(6))
            ]
            chunks_ = [replace(chunk, generation=generation) for chunk in live.get(uri, [])]
            chunks += case.sample(chunks_, case.randrange(len(chunks_) + 1))
            to.stage(*chunks)
            match case.randrange(6):
                case 0:
                    to.sweep(abandon=True)  # as the run after an interrupted one does
                case 1:
                    to.remove(uri)
                    live.pop(uri, None)
                case _:
                    to.publish(uri, generation)
                    live[uri] = list({chunk.id: chunk for chunk in chunks}.values())
            to.words("bread engine")  # so that the next version reuses what this one has cached
        live_documents = to.index.read(HERE, lambda view: view.languages())
        assert live_documents == to.index.read(HERE, counted_languages)
        fresh = replace(HERE, kb="fresh")
        to.open(fresh)
        to.add(*(chunk for chunks in live.values() for chunk in chunks), namespace=fresh)
        assert to.count() == to.count(fresh)
        for question in (*vocabulary, "kitchen engine", "bread bread year"):
            expected = {(m.id, m.text): m.figure for m in to.words(question, namespace=fresh)}
            figures = {(m.id, m.text): m.figure for m in to.words(question)}
            assert figures == pytest.approx(expected, abs=1e-9)
            assert document_figures(to, question) == pytest.approx(
                by_hand(live, question), abs=1e-8
            )
