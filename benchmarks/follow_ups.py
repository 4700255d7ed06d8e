"""Compare search texts for follow-up questions, without a language model.

`follow_ups.jsonl` holds conversations of two turns about the FastAPI pages of the quickstart and
about the pages of this repository. It names phrases that only right passages contain. The second
turn is `elliptic` ("And express?"), has a `pronoun` ("Can I change it?"), or is a `switch` to
another subject. The columns: MRR@10 by kind and in total; how often a right passage is first, and
within 3 and 5; the difference in MRR from the question alone, with its 95 % interval (paired
bootstrap); and the MRR of the switches after every third of the first turns, related or not.

    python benchmarks/follow_ups.py [--embedder local|hashing] [--every N]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind import Project
from lorebind_knowledge.embedders.local import WEAK_BELOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.records import DocumentMatch

    Search = Callable[[str, str], list[DocumentMatch]]
    Condition = Callable[["Conversation"], bool]

ROOT = Path(__file__).resolve().parents[1]
CORPORA = {
    "fastapi": ["examples/quickstart/docs/**/*.md"],
    "lorebind": ["docs/**/*.md", "README.md", "SECURITY.md"],
}
KINDS = ("elliptic", "pronoun", "switch")
POINTING = r"(?i)\b(its?|itself|this|that|these|those|they|them|their|there|here|ones?|such|same)\b"


class Conversation(NamedTuple):
    """The messages of a user; the question follows the turn `last`."""

    corpus: str
    kind: str
    relevant: list[dict[str, str]]
    question: str
    last: str
    before: str
    """The turn before `last`, about another subject."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--embedder", choices=("local", "hashing"), default="local")
    parser.add_argument(
        "--every", type=int, default=1, help="use every Nth conversation and the pages of these"
    )
    arguments = parser.parse_args()
    embedder = {"id": "one", "provider": arguments.embedder}
    declared: dict[str, Any] = {"name": "follow-ups", "embedders": [embedder]}
    declared["knowledge_bases"] = []
    declared["vector_dbs"] = [{"id": "scratch", "type": "memory"}]
    few = read()[:: arguments.every]
    for name, paths in CORPORA.items():
        pages = {right["uri"] for talk in few if talk.corpus == name for right in talk.relevant}
        sources = [
            {"type": "markdown_glob", "paths": paths if arguments.every == 1 else sorted(pages)}
        ]
        declared["knowledge_bases"].append({"id": name, "sources": sources})
    with Project.build(declared, root=ROOT) as project:
        for name in CORPORA:
            project.ingest(name)
        compare(few, cache(lambda kb, text: project.query(kb, text, top_k=50).matches))


def read() -> list[Conversation]:
    """Read the conversations. Exits if a page no longer contains one of their phrases."""
    file = ROOT / "benchmarks" / "follow_ups.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    conversations = []
    for number, line in enumerate(lines, 1):
        for right in line["relevant"]:
            text = (ROOT / right["uri"]).read_text(encoding="utf-8")
            if right["contains"] not in " ".join(text.split()):
                sys.exit(f"{file}:{number}: {right['uri']} does not hold {right['contains']!r}")
        firsts = [other["first"] for other in lines if other["corpus"] == line["corpus"]]
        turns = line["follow_up"], line["first"], firsts[firsts.index(line["first"]) - 7]
        conversations.append(Conversation(line["corpus"], line["kind"], line["relevant"], *turns))
    return conversations


def compare(conversations: list[Conversation], search: Search) -> None:
    def below(words: int) -> Condition:
        return lambda talk: len(talk.question.split()) < words

    def points(talk: Conversation) -> bool:
        return below(5)(talk) or bool(re.search(POINTING, talk.question))

    def no_hit(talk: Conversation) -> bool:
        matches = search(talk.corpus, talk.question)
        return max(match.scores["dense"] for match in matches) < WEAK_BELOW

    always, thrice = below(sys.maxsize), "{question}\n" * 3 + "{last}"
    # The texts, and when they are searched for; otherwise it is the question alone.
    recipes = [
        ("question alone", ["{question}"], always),
        ("last turn, question", ["{last}\n{question}"], always),
        ("question, last turn", ["{question}\n{last}"], always),
        ("- below 5 words, or a pronoun", ["{question}\n{last}"], points),
        ("- if alone it is no hit", ["{question}\n{last}"], no_hit),
        ("question x 3, last turn", [thrice], always),
        ("- below 10 words", [thrice], below(10)),
        ("- and the turn before", [thrice + "\n{before}"], below(10)),
        ("two searches, fused by rank", ["{question}", "{last}\n{question}"], always),
    ]
    others = [
        conversation._replace(last=other.last)
        for conversation in conversations
        for other in conversations[::3]
        if conversation.kind == "switch" and conversation.corpus == other.corpus
    ]

    def gains(texts: list[str], applies: Condition, all_of: list[Conversation]) -> Any:
        templates = [texts if applies(talk) else ["{question}"] for talk in all_of]
        return np.array(
            [gain(talk, of, search) for talk, of in zip(all_of, templates, strict=True)]
        )

    kinds = np.array([conversation.kind for conversation in conversations])
    samples = np.random.default_rng(0).integers(0, len(kinds), (10_000, len(kinds)))
    alone = gains(["{question}"], always, conversations)
    columns = "".join(f"{column:>9}" for column in (*KINDS, "all", "@1", "@3", "@5"))
    print(f"{'':30}{columns}   difference               switches")
    for name, texts, applies in recipes:
        all_of = gains(texts, applies, conversations)
        more, switched = all_of - alone, gains(texts, applies, others).mean()
        low, high = np.quantile(more[samples].mean(axis=1), [0.025, 0.975])
        figures = [*(all_of[kinds == kind].mean() for kind in KINDS), all_of.mean()]
        figures += [(all_of >= 1 / within).mean() for within in (1, 3, 5)]
        print(f"{name:30}" + "".join(f"{figure:9.3f}" for figure in figures), end="   ")
        print(f"{more.mean():+.3f} ({low:+.3f} to {high:+.3f})   {switched:.3f}", flush=True)


def gain(talk: Conversation, texts: list[str], search: Search) -> float:
    """Return one by the rank of the first right passage; several searches are fused by rank."""
    scores: dict[str, float] = {}
    results = [search(talk.corpus, text.format(**talk._asdict())) for text in texts]
    for matches in results:
        for rank, match in enumerate(matches, 1):
            scores[match.id] = scores.get(match.id, 0) + 1 / (60 + rank)
    by_id = {match.id: match for matches in results for match in matches}
    for rank, best in enumerate(sorted(scores, key=lambda match: -scores[match])[:10], 1):
        uri, text = by_id[best].metadata["uri"], " ".join(by_id[best].text.split())
        if any(uri == right["uri"] and right["contains"] in text for right in talk.relevant):
            return 1 / rank
    return 0.0


if __name__ == "__main__":
    main()
