"""`lorebind eval`: the table, the data, the threshold that fails a build, tuning and the chart."""

from __future__ import annotations

import json

import pytest

from lorebind import Project

from .helpers import PROJECT, Cli, Done

QUESTIONS = {
    "1": "how to rotate keys",
    "2": "invoices by mail",
    "3": "ninety days",
    "4": "each month to the owner",
}
QUERIES = "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in QUESTIONS.items())
QRELS = "1\tdocs/keys.md\t1\n2\tdocs/bills.md\t1\n3\tdocs/keys.md\t1\n4\tdocs/bills.md\t2\n"
FILES = ("docs", "--queries", "queries.jsonl", "--qrels", "qrels.tsv")


@pytest.fixture
def judged(ready_cli: Cli) -> Cli:
    """Return an ingested project with questions and relevance judgments."""
    ready_cli.write({"queries.jsonl": QUERIES, "qrels.tsv": QRELS})
    return ready_cli


def rows(done: Done) -> list[list[str]]:
    """Return the cells of the printed table's rows."""
    return [line.split() for line in done.out.splitlines()[2:]]


def test_the_table(judged: Cli) -> None:
    """The declared strategy comes first, then the others that need no further settings."""
    done = judged("eval", *FILES)
    assert done.code == 0, done
    assert done.out.splitlines()[0].split() == (
        [
            "strategy",
            "nDCG@10",
            "against",
            "the",
            "first",
            "recall@10",
            "recall@100",
            "MRR",
            "p50",
            "ms",
            "p95",
            "ms",
        ]
    )
    assert [row[0] for row in rows(done)] == ["hybrid", "similarity", "lexical", "mmr"]
    first, *others = rows(done)
    assert first[1:5] == ["1.000"] * 4
    assert all(row[1:4] == ["1.000", "+0.000", "[+0.000,"] for row in others)


def test_strategies_that_are_named(judged: Cli) -> None:
    """Only named strategies are compared with the declared one, each once."""
    done = judged("eval", *FILES, "--strategy", "lexical", "--strategy", "hybrid")
    assert [row[0] for row in rows(done)] == ["hybrid", "lexical"]


def test_json(judged: Cli) -> None:
    """The data has the same figures, and nothing else is printed on standard output."""
    done = judged("eval", *FILES, "-o", "json")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert data["tuning"] is None
    first = data["strategies"][0]
    assert (first["strategy"], first["ndcg_10"], first["queries"]) == ("hybrid", 1.0, 4)
    assert set(first) == {
        "strategy",
        "ndcg_10",
        "recall_10",
        "recall_100",
        "mrr",
        "p50_ms",
        "p95_ms",
        "queries",
        "against_first",
        "questions",
    }
    assert [(question["id"], question["text"]) for question in first["questions"]] == list(
        QUESTIONS.items()
    )
    assert {question["ndcg_10"] for question in first["questions"]} == {1.0}


def test_each_question(judged: Cli) -> None:
    """`--questions` adds the nDCG@10 of each question, worst first, and what it did not find."""
    judged.write({"qrels.tsv": QRELS.replace("2\tdocs/bills.md", "2\tdocs/nowhere.md")})
    done = judged("eval", *FILES, "--strategy", "lexical", "--questions")
    assert done.code == 0, done
    *_, header, _, worst, _, _, _ = done.out.splitlines()
    assert header.split() == ["id", "question", "hybrid", "lexical", "not", "among", "10"]
    assert worst.split() == ["2", *QUESTIONS["2"].split(), "0.000", "0.000", "docs/nowhere.md"]


def test_another_knowledge_base(judged: Cli) -> None:
    """`--against` compares with another knowledge base, question by question."""
    other = (
        "  - { id: small, embedder: few, sources: [{ type: markdown_glob, path: docs/*.md }] }\n"
    )
    few = "provider: hashing }, { id: few, provider: hashing, config: { dimension: 8 } }]"
    yaml = PROJECT.replace("provider: hashing }]", few)
    judged.write({"lorebind.yaml": yaml.replace("knowledge: [", f"{other}knowledge: [")})
    assert judged("knowledge", "ingest", "small").code == 0
    done = judged("eval", *FILES, "--strategy", "lexical", "--against", "small", "-o", "json")
    assert done.code == 0, done
    first, *others = json.loads(done.out)["strategies"]
    assert [other["strategy"] for other in others] == ["lexical", "small: hybrid"]
    gain = [
        b["ndcg_10"] - a["ndcg_10"]
        for a, b in zip(first["questions"], others[1]["questions"], strict=True)
    ]
    assert others[1]["against_first"]["mean"] == pytest.approx(sum(gain) / len(gain))


def test_a_bar(judged: Cli) -> None:
    """Below the threshold the command fails after printing the figures; at it, it passes."""
    assert judged("eval", *FILES, "--min-ndcg", "1").code == 0
    judged.write({"qrels.tsv": QRELS.replace("1\tdocs/keys.md\t1\n", "1\tdocs/bills.md\t1\n")})
    done = judged("eval", *FILES, "--min-ndcg", "0.99", "-o", "json")
    assert done.code == 1
    figure = json.loads(done.out)["strategies"][0]["ndcg_10"]
    assert figure < 0.99
    assert done.err == f"lorebind: hybrid has nDCG@10 {figure:.3f}, less than 0.99\n"


def test_tuning(judged: Cli) -> None:
    """The weight, and whether it is worth setting, are printed below the table or in the data."""
    done = judged("eval", *FILES, "--tune")
    assert done.code == 0, done
    assert done.out.splitlines()[-1] == (
        "keep the settings: a weight chosen on other questions has nDCG@10 1.000, the declared "
        "settings have 1.000: +0.000 [+0.000, +0.000], which may be chance"
    )
    data = json.loads(judged("eval", *FILES, "--tune", "-o", "json").out)
    assert data["tuning"]["dense"] == 0.5
    assert data["tuning"]["is_noise"] is True
    assert data["tuning"]["difference"] == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_a_picture(judged: Cli) -> None:
    """The chart is written to the given file."""
    done = judged("eval", *FILES, "--plot", "plot.svg")
    assert done.code == 0, done
    assert "<svg" in (judged.root / "plot.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("docs", "--queries", "none.jsonl", "--qrels", "qrels.tsv"), "none.jsonl cannot be read"),
        (("docs", "--queries", "qrels.tsv", "--qrels", "qrels.tsv"), "qrels.tsv:1: expected"),
        ((*FILES, "--strategy", "magic"), "magic"),
        ((*FILES, "--strategy", "rerank"), "needs a reranker"),
        ((*FILES, "--plot", "plot.gif"), "file name with .png"),
        ((*FILES, "--min-ndcg", "high"), "a valid number"),
        ((*FILES, "--min-ndcg", "50"), "less than or equal to 1"),
        (("none", *FILES[1:]), "none"),
        (FILES[:3], "--qrels"),
    ],
)
def test_mistakes(judged: Cli, arguments: tuple[str, ...], message: str) -> None:
    """Wrong usage exits with 2, explains the mistake, and prints no figures."""
    done = judged("eval", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_too_few_to_tune(judged: Cli) -> None:
    """Too few questions for tuning are wrong usage, too."""
    judged.write({"qrels.tsv": "1\tdocs/keys.md\t1\n"})
    done = judged("eval", *FILES, "--tune")
    assert done.code == 2
    assert "tuning needs at least 4 questions" in done.err


def test_not_ingested(cli: Cli) -> None:
    """Without an index, the command fails and names the command to run."""
    cli.write({"queries.jsonl": QUERIES, "qrels.tsv": QRELS})
    done = cli("eval", *FILES)
    assert done.code != 0
    assert "lorebind knowledge ingest docs" in done.err


def test_from_python(judged: Cli) -> None:
    """`KnowledgeBase.evaluate` and `tune` return the figures that are printed."""
    with Project.load(judged.root) as project:
        files = (judged.root / "queries.jsonl", judged.root / "qrels.tsv")
        docs = project.knowledge_base("docs")
        scores = docs.evaluate(*files, strategies=["lexical"])
        assert [score.strategy for score in scores] == ["hybrid", "lexical"]
        assert docs.tune(*files).dense == 0.5
