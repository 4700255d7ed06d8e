"""New documents before old ones, and instead of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project, UsageError
from lorebind.plain_data import as_data, from_data
from lorebind_config.dates import date_text
from lorebind_knowledge.records import DocumentMatch, QueryResult
from tests.bindings.helpers import write

QUESTION = "How often are the keys rotated?"
RERANKER = """\
class Words:
    def rerank(self, question, texts):
        words = set(question.lower().strip("?").split())
        return [len(words & set(text.lower().strip(".").split())) / 10 for text in texts]
"""
RECENCY = {"field": "modified", "half_life": "180d", "weight": 0.2}


def days_ago(days: int) -> str:
    return date_text(datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days))


TEXTS = {
    "best-old": ("The keys are rotated often, each month, so how.", 3600),
    "good-new": ("The keys are rotated each week.", 0),
    "good-old": ("The keys are rotated each year.", 7200),
    "undated": ("The keys are rotated each day.", None),
    "other-new": ("Lunch is served at noon in the canteen.", 0),
    "other-old": ("Desks stand near windows.", 3600),
    **{
        f"z{number}": (f"Room {number} has {number} chairs, said Ann{number}.", 9)
        for number in range(9)
    },
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "similarity": {},
    "lexical": {},
    "hybrid": {},
    "mmr": {"mmr_lambda": 1.0},
    "rerank": {"rerank": {"class": "words:Words", "candidates": 50}},
}


def declared(vector_db: dict[str, Any], *, split: bool = False) -> dict[str, Any]:
    """Return a project with all texts in one knowledge base, or each in one of its own."""
    documents = [
        {
            "id": f"{name}.md",
            "text": text,
            "metadata": {} if age is None else {"modified": days_ago(age)},
        }
        for name, (text, age) in TEXTS.items()
    ]
    groups = [[document] for document in documents] if split else [documents]
    return {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [{"id": "here", **vector_db}],
        "knowledge_bases": [
            {
                "id": f"docs{number}",
                "embedder": "words",
                "sources": [{"type": "inline", "documents": group}],
            }
            for number, group in enumerate(groups)
        ],
    }


def ingested(data: dict[str, Any], root: Path) -> Project:
    project = Project.build(data, root=write(root, {"words.py": RERANKER}))
    for kb in data["knowledge_bases"]:
        project.ingest(kb["id"])
    return project


every_store = pytest.mark.parametrize(
    "vector_db", ["memory", "sqlite", "pgvector", "qdrant"], indirect=True
)


@pytest.fixture
def project(tmp_path: Path, vector_db: dict[str, Any]) -> Iterator[Project]:
    with ingested(declared(vector_db), tmp_path) as project:
        yield project


def names(matches: Any) -> list[str]:
    """Return the documents of passages, without their extension."""
    return [match.metadata["uri"].removesuffix(".md").removeprefix("inline:") for match in matches]


def by_name(result: QueryResult) -> dict[str, DocumentMatch]:
    return dict(zip(names(result), result, strict=True))


@every_store
def test_recency_changes_the_order_only(project: Project) -> None:
    """For every strategy, newer passages come first, with the scores and verdict as before."""
    for strategy, more in STRATEGIES.items():
        settings = {"strategy": strategy, "top_k": 4, **more}
        before = project.query("docs0", QUESTION, **settings)
        after = project.query("docs0", QUESTION, recency=RECENCY, **settings)
        assert sorted(names(before)) == sorted(names(after)), strategy
        assert (after.verdict, after.shortfall) == (before.verdict, before.shortfall)
        order = names(after)
        assert order.index("good-new") < order.index("undated") < order.index("good-old"), strategy
        assert order[0] == "best-old", strategy  # its score is high enough to stay first
        for name, match in by_name(after).items():
            plain = by_name(before)[name]
            assert (match.score, match.relevance) == (plain.score, plain.relevance)
            age = TEXTS[name][1]
            recency = 0.5 if age is None else 0.5 ** (age / 180)
            assert match.scores["recency"] == pytest.approx(recency, abs=0.001)
            factor = 0.8 + 0.2 * match.scores["recency"]
            assert match.scores["recent"] == pytest.approx(match.score * factor)
        for top_k in (1, 3):
            first = project.query(
                "docs0", QUESTION, recency=RECENCY, **{**settings, "top_k": top_k}
            )
            assert names(first) == order[:top_k], strategy
        unweighted = project.query("docs0", QUESTION, recency={"weight": 0}, **settings)
        assert [match.scores for match in unweighted] == [match.scores for match in before]


def test_recency_counts_across_knowledge_bases_and_in_prompts(tmp_path: Path) -> None:
    """Several knowledge bases, retrievers, prompts and agents' tools have the same order."""
    data = declared({"type": "memory"})
    every = declared({"type": "memory"}, split=True)
    settings = {"recency": RECENCY, "top_k": 4, "strategy": "similarity"}
    with ingested(data, tmp_path / "one") as one, ingested(every, tmp_path / "several") as several:
        expected = names(one.query("docs0", QUESTION, **settings))
        assert expected == ["best-old", "good-new", "undated", "good-old"]
        ids = [kb["id"] for kb in every["knowledge_bases"]]
        assert names(several.query_many(ids, QUESTION, **settings)) == expected
        joined = several.retriever(*ids, k=4, **settings).invoke(QUESTION)
        assert names(joined) == expected
        block = one.prompt("docs0", **settings).invoke(QUESTION).to_string()
        places = [block.index(TEXTS[name][0]) for name in expected]
        assert places == sorted(places)
        assert "recent" in repr(
            from_data(QueryResult, as_data(one.query("docs0", QUESTION, **settings)))
        )


@every_store
def test_why_shows_the_recency(project: Project) -> None:
    """`why` has the rank of a document before and after its age counts."""
    stages = project.knowledge_base("docs0").why(
        QUESTION, "inline:good-old.md", recency=RECENCY, top_k=1
    )
    ranks = {stage.stage: stage.rank for stage in stages.stages}
    assert ranks["recent"] is not None
    assert ranks["recent"] > 1
    assert stages.lost_at == "top_k"


MANUALS = {
    "a-1": {"product": "a", "version": "1.9"},
    "a-2": {"product": "a", "version": "1.10"},
    "a-2-annex": {"product": "a", "version": "1.10"},
    "a-none": {"product": "a"},
    "b-1": {"product": "b", "version": 3},
    "b-2": {"product": "b", "version": 12},
    "c": {"product": "c", "version": "2026-01-01"},
    "c-time": {"product": "c", "version": "2026-01-01T10:00:00Z"},
    "free": {"version": "0.1"},
}
NEWEST = {"a-2", "a-2-annex", "b-2", "c-time", "free"}
VERSIONS = {"by": ["product"], "field": "version"}


@every_store
def test_searches_find_the_newest_version_only(tmp_path: Path, vector_db: dict[str, Any]) -> None:
    """With every strategy, also if only an older version matches, and after a change."""
    data = declared(vector_db)
    documents = [
        {"id": f"{name}.md", "text": f"The keys of {name} are rotated.", "metadata": about}
        for name, about in MANUALS.items()
    ]
    data["knowledge_bases"][0]["sources"][0]["documents"] = documents
    data["knowledge_bases"][0]["preprocess"] = {"dedupe": False}
    with ingested(data, tmp_path) as project:
        docs = project.knowledge_base("docs0")
        for strategy, more in STRATEGIES.items():
            settings = {"strategy": strategy, "top_k": 20, **more}
            assert set(names(docs.query(QUESTION, **settings))) == set(MANUALS)
            hits = docs.query(QUESTION, versions=VERSIONS, **settings)
            assert set(names(hits)) == NEWEST, strategy
            (best,) = docs.query(
                "keys of b-1", versions=VERSIONS, filters={"product": "b"}, **settings
            )
            assert names([best]) == ["b-2"]
        unrelated = docs.query("zebra", versions=VERSIONS, strategy="similarity", top_k=3)
        assert set(names(unrelated)) < NEWEST
        every = docs.query(QUESTION, versions={**VERSIONS, "newest": False}, top_k=20)
        assert set(names(every)) == set(MANUALS)
        # Only what passes the filters is a version.
        old = docs.query(QUESTION, versions=VERSIONS, filters={"version": {"$in": ["1.9", 3]}})
        assert set(names(old)) == {"a-1", "b-1"}
        docs.exclude_document("inline:b-2.md")
        assert "b-1" in names(docs.query(QUESTION, versions=VERSIONS, top_k=20))
        path = docs.why(QUESTION, "inline:a-1.md", versions=VERSIONS)
        assert (path.lost_at, path.stages[0].note) == (
            "versions",
            "0 of its 1 passages are of the newest version",
        )
        docs.add_documents(
            [
                {
                    "id": "a-3.md",
                    "text": "The keys of a are rotated.",
                    "metadata": {"product": "a", "version": "2"},
                }
            ]
        )
        newest = names(docs.query(QUESTION, versions=VERSIONS, filters={"product": "a"}, top_k=20))
        assert newest == ["added:a-3"]


def test_missing_dates_and_versions_are_named(tmp_path: Path) -> None:
    """A key that no document has is a notice, with the nearest one."""
    with ingested(declared({"type": "memory"}), tmp_path) as project:
        notices = project.query("docs0", QUESTION, recency={"field": "modifed"}).notices
        assert "metadata key 'modifed', which recency names; did you mean 'modified'" in notices[0]
        notices = project.query("docs0", QUESTION, versions={"by": ["product"]}).notices
        assert "metadata key 'product', which versions names" in notices[0]
        with pytest.raises(
            UsageError, match="'6 months' is not an age; write a number and h, d, w"
        ):
            project.query("docs0", QUESTION, recency={"half_life": "6 months"})
