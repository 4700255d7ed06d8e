"""The playground with 100,000 documents, a document of 4 MB and a passage of 1 MB, in Chromium.

It prints how long each view takes until its data is shown, and what the page's memory is before and
after a person has looked at many pages and scrolled through the whole document.

    python -m tests.app.playground.at_size [--documents 100000] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

PROJECT = {
    "name": "large",
    "models": [{"id": "default", "provider": "extractive"}],
    "knowledge_bases": [
        {
            "id": "many",
            "embedder": "none",
            "sparse": "off",
            "sources": [{"type": "file_glob", "path": "many/**/*.md", "max_bytes": 8 * 1024**2}],
        },
        {
            "id": "long",
            "embedder": "none",
            "sparse": "off",
            "sources": [{"type": "file_glob", "path": "long/*.md", "max_bytes": 8 * 1024**2}],
        },
        {
            "id": "passage",
            "embedder": "none",
            "sparse": "off",
            "sources": [{"type": "file_glob", "path": "passage/*.txt", "max_bytes": 8 * 1024**2}],
        },
    ],
}
_LINES = 50_000
_PAGE = 50
"""Documents of a page of the list."""


def _many(number: int) -> str:
    return f"many/{number // 1000:03}/{number:06}.md"


def write(folder: Path, documents: int) -> None:
    """Write the files of the project."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(documents):
        file = folder / _many(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Note {number}\n\nThe tour {number} leaves at nine.\n")
    (folder / "long").mkdir(exist_ok=True)
    line = "Line {0} says that the tour of bus {0} leaves at nine and comes back at noon, {0}."
    text = "\n".join(line.format(number) for number in range(1, _LINES + 1))
    (folder / "long/book.md").write_text(text)
    (folder / "passage").mkdir(exist_ok=True)
    words = " ".join(f"word{number}" for number in range(120_000))
    (folder / "passage/big.txt").write_text(f"{words[:500_000]} zebra {words[500_000:999_990]}")
    (folder / "lorebind.yaml").write_text(yaml.safe_dump(PROJECT))  # last: all of it is there


def measure(url: str, documents: int) -> None:
    """Open the views, and print what they take."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--js-flags=--expose-gc"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        profiler = page.context.new_cdp_session(page)

        def memory() -> str:
            profiler.send("HeapProfiler.collectGarbage")
            heap = profiler.send("Runtime.getHeapUsage")["usedSize"]
            nodes = page.evaluate("document.querySelectorAll('*').length")
            return f"{heap / 1e6:.1f} MB of JavaScript, {nodes} elements"

        def timed(what: str, where: str, text: str) -> None:
            page.goto("about:blank")
            began = time.perf_counter()
            page.goto(f"{url}/playground#/{where}")
            page.locator("main").get_by_text(text).first.wait_for()
            print(f"{what}: {time.perf_counter() - began:.2f} s; {memory()}", flush=True)

        timed("first view", "", "documents, ")
        timed("first view again", "", "documents, ")
        last, turns = documents - 1, min(100, (documents - 1) // _PAGE)
        timed(f"{documents:,} documents, one page", "kb/many/documents", _many(0))
        for _ in range(turns):
            page.get_by_role("button", name="Next page").click()
        page.get_by_text(_many(turns * _PAGE)).wait_for()
        print(f"after {turns} pages: {memory()}", flush=True)
        page.get_by_label("Name or title").fill(f"{last:06}")
        began = time.perf_counter()
        page.keyboard.press("Enter")
        page.get_by_text(_many(last)).wait_for()
        print(f"a document by its name: {time.perf_counter() - began:.2f} s", flush=True)
        tour = min(4711, last)
        timed("a question", f"kb/many?q=tour%20{tour}&answer=no", f"{tour:06}")
        # Chunkers make no such passages, but an existing vector store may have some.
        page.route("**/passage/query", _as_one_passage)
        timed("a passage of 1 MB", "kb/passage?q=zebra&answer=no", "zebra")
        began = time.perf_counter()
        page.get_by_role("button", name="more characters").click()
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        print(f"all of it: {time.perf_counter() - began:.2f} s; {memory()}", flush=True)
        timed("a line of 1 MB", "kb/passage/source/passage%2Fbig.txt", "word1 ")
        timed("a document of 4 MB", "kb/long/source/long%2Fbook.md", "Line 20 says")
        began, frames = time.perf_counter(), 0
        lines = page.get_by_role("group", name="Text of the document")
        for _ in range(60):
            lines.evaluate("(element) => element.scrollTop += 3000")
            page.wait_for_timeout(100)
            frames += 1
        shown = page.get_by_text("scroll for more").inner_text()
        took = time.perf_counter() - began
        print(f"scrolled {frames} times in {took:.1f} s: {shown}; {memory()}", flush=True)
        began = time.perf_counter()
        page.get_by_label("Line", exact=True).fill(str(_LINES - 1))
        page.get_by_role("button", name="Go to line").click()
        page.get_by_text(f"Line {_LINES - 1} says").wait_for()
        print(f"to its end: {time.perf_counter() - began:.2f} s; {memory()}", flush=True)
        browser.close()


def _as_one_passage(route: Any) -> None:
    """Answer a search with one passage that has the text of a million characters."""
    answer = route.fetch().json()
    match = answer["matches"][0]
    match["text"] = match["text"].ljust(1000, "x") * 1000
    answer["matches"] = [match]
    route.fulfill(json=answer)


async def ingest(folder: Path) -> None:
    from lorebind import Project

    with Project.load(folder) as project:
        for kb_id in ("long", "passage", "many"):
            began = time.perf_counter()
            report = await project.knowledge_base(kb_id).aingest()
            print(f"{kb_id}: {report.documents} in {time.perf_counter() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="is kept, and used again if it is there")
    options = parser.parse_args()
    temporary: Any = tempfile.TemporaryDirectory()
    folder = options.folder or Path(temporary.name) / "large"
    if not (folder / "lorebind.yaml").exists():
        write(folder, options.documents)
    if not (folder / ".lorebind").exists():
        asyncio.run(ingest(folder))
    command = [str(Path(sys.executable).with_name("lorebind")), "serve", "--project", str(folder)]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("serving at ").strip()
            while not httpx.get(f"{url}/readyz", timeout=120).is_success:
                time.sleep(0.1)
            stats = httpx.get(f"{url}/api/v0/knowledge-bases/many/stats", timeout=120).json()
            measure(url, stats["documents"]["ready"])
        finally:
            server.terminate()
    temporary.cleanup()


if __name__ == "__main__":
    main()
