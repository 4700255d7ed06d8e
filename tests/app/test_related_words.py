"""Terms of the built-in sparse embedder, as users see them: explained, planned and compared."""

from __future__ import annotations

import json

import pytest

from .helpers import Cli

PROJECT = """
name: manual
knowledge_bases:
  - id: manual
    sparse: {sparse}
    sources: [{{ type: markdown_glob, path: "manual/*.md" }}]
"""
FILES = {
    "manual/setup.md": "# Setup\n\nThe installation takes ten minutes on a notebook.",
    "manual/refunds.md": "# Refunds\n\nWe pay the price back within thirty days.",
}
QUESTION = "How do I install it on a laptop?"


@pytest.fixture
def manual(empty_cli: Cli) -> Cli:
    """Return an ingested project whose passages have terms."""
    empty_cli.write({"lorebind.yaml": PROJECT.format(sparse="local"), **FILES})
    assert empty_cli("knowledge", "ingest", "manual").code == 0
    return empty_cli


def test_matching_terms(manual: Cli) -> None:
    """`--explain` lists the terms that question and passage share; arrows mark related words."""
    done = manual("knowledge", "query", "manual", "-q", QUESTION, "--explain")
    assert done.code == 0, done
    first, *_ = [line for line in done.out.splitlines() if line.startswith("    terms: ")]
    assert "→ installation 0." in first
    data = json.loads(
        manual("knowledge", "query", "manual", "-q", QUESTION, "--explain", "-o", "json").out
    )
    best, *_ = data["result"]["matches"]
    assert best["metadata"]["uri"] == "manual/setup.md"
    assert best["scores"]["terms"] > 0
    terms = data["terms"][best["id"]]
    assert terms["installation"]["related"]
    shares = [term["share"] for term in terms.values()]
    assert shares == sorted(shares, reverse=True)


def test_without_terms(manual: Cli) -> None:
    """Turned off, there are no terms; turned on again, the plan counts the passages."""
    manual.write({"lorebind.yaml": PROJECT.format(sparse="off")})
    assert manual("knowledge", "ingest", "manual").code == 0
    done = manual("knowledge", "query", "manual", "-q", QUESTION, "--explain", "-o", "json")
    data = json.loads(done.out)
    assert data["terms"] == {}
    matches = data["result"]["matches"]
    assert matches
    assert not any("terms" in match["scores"] for match in matches)
    manual.write({"lorebind.yaml": PROJECT.format(sparse="local")})
    assert ", terms for 2" in manual("knowledge", "plan", "manual").out
    done = manual("knowledge", "query", "manual", "-q", QUESTION)
    assert "have no terms of local/splade-tiny yet" in done.err
    assert (
        "2 passages that were indexed before have terms now"
        in manual("knowledge", "ingest", "manual").out
    )
    assert ", terms for" not in manual("knowledge", "plan", "manual").out


def test_compared(manual: Cli) -> None:
    """`eval` compares `hybrid` with and without terms."""
    queries = [{"id": "1", "text": QUESTION}, {"id": "2", "text": "Do I get my money back?"}]
    manual.write(
        {
            "queries.jsonl": "".join(json.dumps(query) + "\n" for query in queries),
            "qrels.tsv": "1\tmanual/setup.md\t1\n2\tmanual/refunds.md\t1\n",
        }
    )
    files = ("--queries", "queries.jsonl", "--qrels", "qrels.tsv")
    done = manual("eval", "manual", *files, "-o", "json")
    assert done.code == 0, done
    compared = [row["strategy"] for row in json.loads(done.out)["strategies"]]
    assert compared == ["hybrid", "similarity", "lexical", "mmr", "hybrid, no terms"]
