"""Ingests that give terms of a sparse embedder to passages, and searches that use them."""

from __future__ import annotations

import pytest

from lorebind_config.errors import EmbedderError, UsageError
from lorebind_knowledge.embedders.sparse.local import LocalSparseEmbedder
from lorebind_knowledge.index.adding_terms import passages_without_terms
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.retrieval.explaining import matching_terms

from .bench import Bench, counts, fail_at, fill, paragraph
from .sparse_words import SparseWords, with_sparse

RELATED = {"automobile": "car", "physician": "doctor"}


@pytest.fixture
def sparse(bench: Bench) -> SparseWords:
    sparse = SparseWords(RELATED)
    with_sparse(bench, sparse)
    return sparse


def garage(bench: Bench) -> None:
    bench.write("a.md", "The automobile waits outside.")
    bench.write("b.md", "The physician waits inside.")
    bench.write("c.md", "Nobody waits upstairs.")


async def matching(bench: Bench, question: str) -> set[str]:
    """Return the documents with any of the terms of a question."""
    matches = (await bench.ask(question)).matches
    return {match.metadata["uri"] for match in matches if match.scores["terms"]}


async def missing(bench: Bench) -> list[int]:
    return await call(passages_without_terms, bench.index, bench.entry)


async def test_related_words_find_a_passage(bench: Bench, sparse: SparseWords) -> None:
    """A passage is found by a word that only its terms have; the score of each signal is known."""
    garage(bench)
    report = await bench.ingest()
    assert (report.texts_embedded, report.terms_added, report.notices) == (3, 3, [])
    result = await bench.ask("car")
    assert result.notices == []
    first, *others = result.matches
    assert first.metadata["uri"] == "docs/a.md"
    assert first.scores["lexical"] == 0
    assert first.scores["terms"] > 0
    assert [match.scores["terms"] for match in others] == [0, 0]
    without = await bench.ask("car", signals={"terms": 0})
    assert without.matches
    assert not any("terms" in match.scores for match in without.matches)


async def test_the_strategies_that_use_terms(bench: Bench, sparse: SparseWords) -> None:
    """`hybrid` and `mmr` use terms, `similarity` and `lexical` do not embed them."""
    garage(bench)
    await bench.ingest()
    for strategy, uses in (("hybrid", 1), ("mmr", 1), ("similarity", 0), ("lexical", 0)):
        sparse.questions.clear()
        result = await bench.ask("physician", strategy=strategy)
        assert len(sparse.questions) == uses
        assert {"terms" in match.scores for match in result.matches} == {bool(uses)}


async def test_edits(bench: Bench, sparse: SparseWords) -> None:
    """Only new texts are embedded; the terms of changed and removed passages are gone."""
    garage(bench)
    await bench.ingest()
    sparse.batches.clear()
    bench.write("a.md", "The bicycle waits outside.")
    bench.remove("b.md")
    report = await bench.ingest()
    assert report.documents == counts(updated=1, removed=1, unchanged=1)
    assert len(sparse.texts) == report.terms_added == 1
    assert await matching(bench, "car doctor") == set()
    assert await missing(bench) == []
    sparse.batches.clear()
    await bench.ingest()
    assert sparse.batches == []


async def test_an_index_without_terms(bench: Bench) -> None:
    """Terms are added to an index without embedding anything else; until then a search says so."""
    fill(bench)
    bench.write("car.md", "The automobile waits outside.")
    await bench.ingest()
    assert (await bench.plan()).terms_to_add == 0
    sparse = SparseWords(RELATED)
    with_sparse(bench, sparse)
    (notice,) = (await bench.ask("car")).notices
    assert "have no terms of words/sparse yet" in notice
    assert "lorebind knowledge ingest docs" in notice
    before = await bench.visible()
    assert (await bench.plan()).terms_to_add == len(before)
    bench.embedder.forget()
    report = await bench.ingest()
    assert (report.texts_embedded, report.documents) == (0, counts(unchanged=5))
    assert report.notices == ["13 passages that were indexed before have terms now"]
    assert bench.embedder.batches == []
    assert len(sparse.texts) == report.terms_added == len(before)
    assert await bench.visible() == before
    result = await bench.ask("car")
    assert result.notices == []
    assert result.matches[0].metadata["uri"] == "docs/car.md"
    assert (await bench.plan()).terms_to_add == 0


async def test_an_interrupted_run_goes_on(bench: Bench) -> None:
    """After a failure, the next run adds only the terms that are still missing."""
    fill(bench)
    await bench.ingest()
    sparse = SparseWords()
    with_sparse(bench, sparse)
    sparse.before_batch = fail_at(2)
    with pytest.raises(EmbedderError, match="down"):
        await bench.ingest()
    assert len(await missing(bench)) == (await bench.plan()).terms_to_add == 8
    assert (await bench.ask("word0a")).notices
    sparse.batches.clear()
    sparse.before_batch = lambda number: None
    await bench.ingest()
    assert len(sparse.texts) == 8
    assert not (await bench.ask("word0a")).notices


async def test_a_failure_of_new_passages(bench: Bench, sparse: SparseWords) -> None:
    """If the sparse embedder fails, the run fails; the next one embeds no text again."""
    fill(bench)
    sparse.before_batch = fail_at(3)
    with pytest.raises(EmbedderError, match="down"):
        await bench.ingest()
    sparse.before_batch = lambda number: None
    await bench.ingest()
    assert len(set(bench.embedder.texts)) == len(bench.embedder.texts) == 12
    assert await missing(bench) == []


async def test_another_sparse_embedder(bench: Bench, sparse: SparseWords) -> None:
    """Another sparse embedder gives new terms; turned off, the index has none."""
    garage(bench)
    await bench.ingest()
    other = SparseWords({"automobile": "vehicle"}, revision="2")
    with_sparse(bench, other)
    assert (await bench.plan()).terms_to_add == 3
    await bench.ingest()
    assert await matching(bench, "vehicle") == {"docs/a.md"}
    assert await matching(bench, "car") == set()
    with_sparse(bench, None)
    assert (await bench.ask("car")).notices == []
    await bench.ingest()
    assert bench.entry.manifest.sparse_key == ""
    with bench.catalog.reading() as sql:
        assert sql.run("select count(*) from catalog_segments where kind = 1") == [(0,)]


async def test_languages_that_it_does_not_know(bench: Bench, sparse: SparseWords) -> None:
    """Passages in other languages have no terms, and the report says so once they are new."""
    garage(bench)
    german = "Der Weg zu den Häusern ist nicht weit, und er ist auch nicht steil."
    bench.write("de.md", german)
    report = await bench.ingest()
    assert report.notices == [
        "passages in languages that words/sparse does not know have no terms: de 2"
    ]
    assert not any("Häusern" in text for text in sparse.texts)
    assert await missing(bench) == []
    assert (await bench.ingest()).notices == []


async def test_only_some_documents(bench: Bench) -> None:
    """A run that reads only some documents leaves an index without terms as it is."""
    fill(bench)
    bench.write_bytes("bad.md", b"\x00\xff\x00")
    await bench.ingest()
    sparse = SparseWords()
    with_sparse(bench, sparse)
    bench.write("bad.md", paragraph("mended"))
    await bench.ingest(only_failed=True)
    assert sparse.batches == []
    assert (await bench.plan()).terms_to_add == 13


async def test_rebuilding(bench: Bench, sparse: SparseWords) -> None:
    """A rebuilt index has the same terms; nothing is embedded again."""
    garage(bench)
    await bench.ingest()
    before = (await bench.ask("car")).matches
    sparse.batches.clear()
    await bench.ingest(strategy="replace")
    assert sparse.batches == []
    assert (await bench.ask("car")).matches == before


async def test_matching_terms(bench: Bench, sparse: SparseWords) -> None:
    """A result can be explained by the terms that question and passage share, with their shares."""
    garage(bench)
    await bench.ingest()
    matches = (await bench.ask("car outside")).matches
    explained = await matching_terms(bench.kb, "car outside", matches)
    (terms,) = explained.values()
    assert [match.metadata["uri"] for match in matches if match.id in explained] == ["docs/a.md"]
    assert list(terms) == ["outside", "car"]
    assert sum(term.share for term in terms.values()) == pytest.approx(1, abs=0.01)
    with_sparse(bench, None)
    assert await matching_terms(bench.kb, "car outside", matches) == {}


async def test_related_words_are_marked(bench: Bench, sparse: SparseWords) -> None:
    """A term that the question does not contain is a related word."""
    garage(bench)
    await bench.ingest()
    question = "Whose automobile waits?"
    matches = (await bench.ask(question, top_k=1)).matches
    (terms,) = (await matching_terms(bench.kb, question, matches)).values()
    related = {name: term.related for name, term in terms.items()}
    assert related == {"automobile": False, "waits": False, "car": True}


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("kubernetes", {"ku", "##ber", "##net", "##es"}),
        ("Gitignore", {"gi", "##ti", "##re"}),  # the model gives "##gno" no weight
        ("café", {"cafe"}),
    ],
)
async def test_pieces_of_a_word(bench: Bench, word: str, pieces: set[str]) -> None:
    """A word that the model splits into pieces, or reads without accents, is no related word."""
    bench.change(sparse=LocalSparseEmbedder(min_weight=0))
    bench.write("a.md", f"We have a {word} here.")
    await bench.ingest()
    question = f"Who has a {word}?"
    matches = (await bench.ask(question)).matches
    (terms,) = (await matching_terms(bench.kb, question, matches)).values()
    assert pieces <= {name for name, term in terms.items() if not term.related}


async def test_a_threshold_of_terms(bench: Bench, sparse: SparseWords) -> None:
    """`min_score_on: terms` removes passages without them; an index without terms is named."""
    garage(bench)
    await bench.ingest()
    settings = {"min_score": 0.5, "min_score_on": "terms"}
    (match,) = (await bench.ask("car", **settings)).matches
    assert match.metadata["uri"] == "docs/a.md"
    with_sparse(bench, None)
    with pytest.raises(UsageError, match="the search has no terms"):
        await bench.ask("car", **settings)
