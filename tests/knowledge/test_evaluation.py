"""Evaluation of a knowledge base: the scores of a tiny collection, tuning, and the plot."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from lorebind_config.declarations.retrieval import RetrievalDeclaration
from lorebind_config.errors import NotIngestedError, UsageError
from lorebind_knowledge.evaluation import evaluate as evaluation
from lorebind_knowledge.evaluation.dataset import Dataset
from lorebind_knowledge.evaluation.evaluate import (
    QuestionScores,
    StrategyScores,
    evaluate,
    plot_scores,
)
from lorebind_knowledge.evaluation.metrics import paired_difference
from lorebind_knowledge.evaluation.tuning import WEIGHTS, tune

from .bench import Bench, paragraph

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
SIMILARITY = RetrievalDeclaration(strategy="similarity")
LEXICAL = RetrievalDeclaration(strategy="lexical")


def dataset(relevant: dict[str, str], name: Callable[[str], str] = "docs/{}.md".format) -> Dataset:
    """Return questions of one word each, with the documents of the given words as relevant."""
    judged = {word: frozenset(name(uri) for uri in uris.split()) for word, uris in relevant.items()}
    return Dataset({word: word for word in WORDS}, judged)


async def filled(bench: Bench) -> Bench:
    for word in WORDS:
        bench.write(f"{word}.md", paragraph(word), paragraph(f"{word} again"))
    await bench.ingest()
    return bench


async def test_figures_by_hand(bench: Bench) -> None:
    """Scores are averaged over questions; documents score by their best chunk, and count once."""
    await filled(bench)
    data = dataset({"alpha": "alpha", "beta": "beta nothing", "gamma": "nothing"})
    steps: list[int] = []
    ways = {"near": SIMILARITY, "words": LEXICAL}
    near, words = await evaluate(bench.kb, data, ways, lambda: steps.append(1))
    assert (near.strategy, words.strategy) == ("near", "words")
    assert len(steps) == 6
    for scores in (near, words):
        assert scores.queries == 3
        assert scores.ndcg_10 == pytest.approx((1 + 1 / (1 + 1 / log2(3)) + 0) / 3)
        assert scores.recall_10 == scores.recall_100 == pytest.approx((1 + 0.5 + 0) / 3)
        assert scores.mrr == pytest.approx(2 / 3)
        assert 0 < scores.p50_ms <= scores.p95_ms


async def test_what_comes_after_others(bench: Bench) -> None:
    """A relevant document after other documents counts by its rank."""
    await filled(bench)
    bench.change(dedupe=False)
    result = await bench.ask("alpha", strategy="similarity", top_k=12)
    order = list(dict.fromkeys(match.metadata["uri"] for match in result))
    for place, uri in enumerate(order):
        data = Dataset({"q": "alpha"}, {"q": frozenset([uri])})
        (scores,) = await evaluate(bench.kb, data, {"s": SIMILARITY})
        assert scores.mrr == pytest.approx(1 / (place + 1))
        assert scores.ndcg_10 == pytest.approx(1 / log2(place + 2))


async def test_the_figures_of_each_question(bench: Bench) -> None:
    """Each question has its figures and the relevant documents that it misses; the means agree."""
    await filled(bench)
    relevant = {"a": frozenset(["docs/alpha.md"]), "b": frozenset(["docs/beta.md", "docs/none.md"])}
    data = Dataset({"a": "alpha", "b": "beta"}, relevant)
    (scores,) = await evaluate(bench.kb, data, {"s": SIMILARITY})
    first, second = scores.questions
    assert (first.id, first.text, first.ndcg_10, first.mrr, first.missing) == (
        "a",
        "alpha",
        1,
        1,
        [],
    )
    assert (second.id, second.recall_10, second.missing) == ("b", 0.5, ["docs/none.md"])
    for name in ("ndcg_10", "recall_10", "recall_100", "mrr"):
        assert getattr(scores, name) == fmean(
            getattr(question, name) for question in scores.questions
        )
    assert scores.ndcg_of_each == [first.ndcg_10, second.ndcg_10]


@pytest.mark.parametrize("name", ["docs/{}.md", "docs/{}", "{}"])
async def test_three_ways_to_name_a_document(bench: Bench, name: str) -> None:
    """Judgements name documents by uri, without the extension, or by the file name alone."""
    await filled(bench)
    data = dataset({"alpha": "alpha", "beta": "beta"}, name.format)
    (scores,) = await evaluate(bench.kb, data, {"s": SIMILARITY})
    assert (scores.ndcg_10, scores.mrr) == (1, 1)


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("docs/a.b.md", ("docs/a.b.md", "docs/a.b", "a.b")),
        ("https://x.org/page.html", ("https://x.org/page.html", "https://x.org/page", "page")),
        ("https://x.org/", ("https://x.org/", "https://x.org/", "")),
        ("docs/.hidden", ("docs/.hidden", "docs/.hidden", ".hidden")),
        ("v1.2/read", ("v1.2/read", "v1.2/read", "read")),
    ],
)
def test_names(uri: str, names: tuple[str, str, str]) -> None:
    """Only the last part of a path has an extension, and an address stays an address."""
    ways = (str, evaluation._without_ending, evaluation._file_name)
    assert tuple(way(uri) for way in ways) == names


async def test_judgements_of_other_documents(bench: Bench) -> None:
    """If no judged document is indexed, the message shows the names on both sides."""
    await filled(bench)
    with pytest.raises(UsageError, match=r"'elsewhere'.*'docs'.*'docs/alpha\.md'"):
        await evaluate(bench.kb, dataset({"alpha": "elsewhere"}, str), {"s": SIMILARITY})


async def test_not_ingested(bench: Bench) -> None:
    """Before the first ingest there is nothing to evaluate."""
    with pytest.raises(NotIngestedError):
        await evaluate(bench.kb, dataset({"alpha": "alpha"}), {"s": SIMILARITY})


# Tuning.


async def test_tuning_asks_no_question_with_a_weight_it_chose(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question is scored with a weight that other questions chose."""
    # Each of the first five questions scores well with one weight, and all others with 0.7.
    alone = dict(enumerate((0.1, 0.2, 0.3, 0.4, 0.6)))

    async def evaluated(*arguments: Any) -> list[StrategyScores]:
        scores = []
        for name in arguments[2]:
            figures = [0.5] * 10
            if name != "declared":
                figures = [float(alone.get(at, 0.7) == float(name)) for at in range(10)]
            mean = sum(figures) / 10
            each = [QuestionScores("", "", figure, 0, 0, 0, 0, []) for figure in figures]
            scores.append(StrategyScores(name, mean, 0, 0, 0, 0, 0, 10, questions=each))
        return scores

    monkeypatch.setattr("lorebind_knowledge.evaluation.tuning.evaluate", evaluated)
    data = Dataset({}, {str(number): frozenset("x") for number in range(10)})
    tuning = await tune(bench.kb, data, RetrievalDeclaration())
    assert (tuning.dense, tuning.ndcg_10, tuning.declared_ndcg_10) == (0.7, 0.5, 0.5)
    assert (tuning.difference.mean, tuning.is_noise) == (0, True)


def test_the_interval_of_a_difference() -> None:
    """The interval contains the true mean as often as stated, and is the same each time."""
    draw = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        figures = draw.normal(0.1, 0.3, 60)
        gap = paired_difference(list(figures), [0.0] * 60)
        assert gap.low <= gap.mean <= gap.high
        inside += gap.low <= 0.1 <= gap.high
    assert 180 <= inside <= 199
    assert paired_difference([1, 0], [0, 1]) == paired_difference([1, 0], [0, 1])
    sure = paired_difference([0.75] * 9, [0.5] * 9)
    assert (sure.mean, sure.low, sure.high, sure.is_noise) == (0.25, 0.25, 0.25, False)
    assert str(sure) == "+0.250 [+0.250, +0.250]"


async def test_the_better_weight_is_chosen(bench: Bench) -> None:
    """If only words find the answers, they get the weight; ties go to the middle."""
    for number in range(4):
        bench.write(
            f"right{number}.md", f"rare{number} " + " ".join(f"f{n}{number}" for n in range(9))
        )
        bench.write(
            f"wrong{number}.md", f"common{number} common{number} common{number} common{number}"
        )
    for number in range(20):
        bench.write(f"more{number}.md", f"common0 common1 common2 common3 m{number}")
    await bench.ingest()
    queries = {str(n): f"rare{n} common{n} common{n}" for n in range(4)}
    data = Dataset(queries, {str(n): frozenset([f"right{n}"]) for n in range(4)})
    tuning = await tune(bench.kb, data, RetrievalDeclaration())
    by_weight = {}
    for weight in WEIGHTS:
        way = RetrievalDeclaration.model_validate(
            {"signals": {"dense": weight, "lexical": 1 - weight}}
        )
        (scores,) = await evaluate(bench.kb, data, {"w": way})
        by_weight[weight] = scores.ndcg_10
    best = max(by_weight.values())
    assert len(set(by_weight.values())) > 1
    assert by_weight[tuning.dense] == best
    nearest = min((w for w in WEIGHTS if by_weight[w] == best), key=lambda w: abs(w - 0.5))
    assert abs(tuning.dense - 0.5) == abs(nearest - 0.5)


async def test_too_few_to_tune(bench: Bench) -> None:
    """Tuning refuses three questions."""
    await filled(bench)
    with pytest.raises(UsageError, match="at least 4 questions with judgements, got 3"):
        await tune(bench.kb, dataset({word: word for word in WORDS[:3]}), SIMILARITY)


# The plot.

SCORES = [
    StrategyScores("hybrid", 0.5, 0.6, 0.9, 0.4, 12.3, 20.0, 7),
    StrategyScores("similarity", 0.25, 0.5, 0.8, 0.3, 2.3, 3.0, 7),
]


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("PDF", b"%PDF")])
def test_a_picture(tmp_path: Path, ending: str, begins: bytes) -> None:
    """The file extension selects the format, also in capitals."""
    plot_scores(SCORES, "docs, 7 questions", tmp_path / f"plot.{ending}")
    assert (tmp_path / f"plot.{ending}").read_bytes().startswith(begins)


def test_what_the_picture_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plot has a labeled bar per measure and strategy, and the time per question."""
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    plot_scores([*SCORES, replace(SCORES[0], strategy="mmr")], "docs", tmp_path / "plot.svg")
    root = ElementTree.parse(tmp_path / "plot.svg").getroot()
    texts = {"".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")}
    assert {"docs", "hybrid", "similarity", "mmr", "12 ms", "2 ms", "nDCG@10", "MRR"} <= texts
    assert {"0.500", "0.250", "0.600", "0.300"} <= texts


@pytest.mark.parametrize("name", ["plot.gif", "plot", "png"])
def test_another_ending(tmp_path: Path, name: str) -> None:
    """An unsupported extension is refused with the supported ones."""
    with pytest.raises(UsageError, match=rf"{name}: expected a file name with \.png, \.svg, \.pdf"):
        plot_scores(SCORES, "docs", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    """The error names a folder that does not exist."""
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        plot_scores(SCORES, "docs", tmp_path / "none" / "plot.png")
