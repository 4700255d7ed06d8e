"""The HTML extractors on pages of news and blogs: phrases that they should keep or remove.

The pages and phrases are those of the tests of trafilatura 1.1.0:

    pip download trafilatura==1.1.0 --no-deps --no-binary :all:
    tar xf trafilatura-1.1.0.tar.gz
    python benchmarks/extractors.py trafilatura-1.1.0/tests

Phrases count if the tests assert that they are in the text of a page, or that they are not. The
baseline of the seconds is `built_in`.
"""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lorebind_knowledge.loaders.registry import load_document

EXTRACTORS = ("built_in", "trafilatura")


class Phrase(NamedTuple):
    page: str
    text: str
    is_wanted: bool


def main() -> None:
    if len(sys.argv) != 2 or not (tests := Path(sys.argv[1])).joinpath("cache").is_dir():
        sys.exit("benchmarks/extractors.py needs the folder tests of trafilatura 1.1.0")
    program = ast.parse((tests / "realworld_tests.py").read_text(encoding="utf-8"))
    files = next(
        ast.literal_eval(node.value)
        for node in program.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MOCK_PAGES"
    )
    phrases = list(phrases_of(program))
    data = {phrase.page: (tests / "cache" / files[phrase.page]).read_bytes() for phrase in phrases}
    baseline = 0.0
    for extractor in EXTRACTORS:
        began = time.perf_counter()
        texts = {
            page: in_one_line(load_document(html, "page.html", "", extractor).text)
            for page, html in data.items()
        }
        seconds = time.perf_counter() - began
        baseline = baseline or seconds
        preserved = [phrase for phrase in phrases if in_one_line(phrase.text) in texts[phrase.page]]
        required, unwanted = (
            f"{sum(phrase.is_wanted is side for phrase in preserved)} of "
            f"{sum(phrase.is_wanted is side for phrase in phrases)}"
            for side in (True, False)
        )
        print(
            f"{extractor:12} {len(texts)} pages  keeps {required} wanted, {unwanted} unwanted"
            f"  {seconds / baseline:.1f} times"
        )


def phrases_of(program: ast.Module) -> Iterator[Phrase]:
    """Yield the phrases that follow each `result = load_mock_page(page)` in assertions."""
    page = ""
    for function in program.body:
        for node in function.body if isinstance(function, ast.FunctionDef) else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                if ast.unparse(node.value.func) == "load_mock_page":
                    page = ast.literal_eval(node.value.args[0])
            elif isinstance(node, ast.Assert) and page:
                is_all = isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)
                for test in node.test.values if is_all else [node.test]:
                    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Constant):
                        yield Phrase(page, test.left.value, isinstance(test.ops[0], ast.In))


def in_one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
