"""One small application written with four libraries, each run for real: a Markdown table.

    python benchmarks/compare/run.py [--python PATH]

Each app keeps an index of a folder on disk and answers questions, as the documentation of its
library shows it. It runs with the first interpreter that has its packages: this one, then those of
`--python` (not all clients of OpenAI's API agree on one version of it). Others are left out.

All have the same vectors: those of Lorebind's local model, in which documents are counted and
questions are not. The chat model is a server on this machine. The clients of the libraries talk to
it, and it keeps the prompts. Judged are these prompts, and the passages in the index on disk.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import runpy
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
SETTINGS = {"OPENAI_API_KEY": "none", "HAYSTACK_TELEMETRY_ENABLED": "False"}
DEADLINE = 300
ROUNDS = 3
KILLED_AFTER = 150
"""Texts, of 210 or more."""
BRANCHES = ("Leeds", "York", "Derby", "Luton", "Poole", "Truro", "Hull", "Bath", "Ely", "Ripon")
"""Each has the whole handbook for the app that is killed, with its name in every heading."""

REFUND, WARRANTY = "How long does a refund take?", "How long are appliances covered?"
TUNGSTEN = "What is the boiling point of tungsten?"


class App(NamedTuple):
    """An app, the packages that it needs, and a setting with a mistake in its name."""

    file: str
    packages: str
    typo: tuple[str, str]


APPS = {
    "Lorebind": App("lorebind_app.py", "lorebind langchain-openai", ('"top_k"', '"topk"')),
    "LangChain": App(
        "langchain_app.py",
        "langchain-core langchain-classic langchain-chroma langchain-openai",
        ('"k": 3', '"top_k": 3'),
    ),
    "LlamaIndex": App(
        "llama_index_app.py",
        "llama-index-core llama-index-vector-stores-chroma llama-index-llms-openai",
        ("similarity_top_k", "similarity_topk"),
    ),
    "Haystack": App("haystack_app.py", "haystack-ai chroma-haystack", ("top_k", "topk")),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--python", action="append", default=[], help="another interpreter")
    arguments = parser.parse_args()
    table = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, app in APPS.items():
            python, versions = interpreter(app, [sys.executable, *arguments.python])
            if python:
                print(f"{name} is being measured", file=sys.stderr)
                measured = Bench(app, python, Path(scratch) / name).measure()
                table[name] = {"versions": versions, **size(HERE / app.file), **measured}
            else:
                print(f"{name} is left out: install {app.packages}", file=sys.stderr)
    print("| |", " | ".join(table), "|")
    print("| --- |", " --- |" * len(table))
    for row in next(iter(table.values()), {}):
        print(f"| {row} |", " | ".join(str(column[row]) for column in table.values()), "|")


def interpreter(app: App, pythons: list[str]) -> tuple[str, str]:
    """The first that has the packages, and their versions."""
    ask = "import sys, importlib.metadata as m\nfor n in sys.argv[1:]: print(n, m.version(n))"
    for python in pythons:
        command = [python, "-c", ask, *app.packages.split()]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode == 0:
            return python, ", ".join(ran.stdout.splitlines())
    return "", ""


def size(file: Path) -> dict[str, Any]:
    """Lines without blank ones, comments and the docstring; and names, without Python's own."""
    text = file.read_text(encoding="utf-8")
    docstring, *statements = ast.parse(text).body
    imports = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    code = {n for n, line in enumerate(text.splitlines(), 1) if re.match(r"\s*[^\s#]", line)}
    first, imported = (
        {n for node in nodes for n in range(node.lineno, (node.end_lineno or 0) + 1)}
        for nodes in ([docstring], imports)
    )
    names = [
        alias.name
        for node in imports
        for alias in node.names
        if (getattr(node, "module", "") or alias.name) not in sys.stdlib_module_names
    ]
    return {
        "lines of code, of imports": f"{len(code - first - imported)}, {len(imported)}",
        "names imported from libraries": len(names),
    }


def counted(app: str, log: str, stop: int, questions: list[str]) -> None:
    """Run an app here. Each text that it embeds is a line of `log`; it hangs after `stop`."""
    from lorebind_knowledge.embedders.local import LocalEmbedder

    embed = LocalEmbedder.embed_documents

    def embed_documents(self: LocalEmbedder, texts: Any) -> Any:
        with open(log, "a", encoding="utf-8") as file:
            file.write("text\n" * len(texts))
        if stop and _lines(log) >= stop:
            time.sleep(DEADLINE)
        return embed(self, texts)

    changed: Any = LocalEmbedder
    changed.embed_documents = embed_documents
    changed.embed_query = lambda self, text: embed(self, [text])[0]
    sys.argv = [app, *questions]
    runpy.run_path(app, run_name="__main__")


class ChatModel(BaseHTTPRequestHandler):
    """OpenAI's API, as far as the clients need it."""

    prompts: list[str]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompts.append("\n".join(message["content"] for message in asked["messages"]))
        said = {"role": "assistant", "content": "It is in the handbook [1]."}
        about = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini"}
        choices = [{"index": 0, "message": said, "finish_reason": "stop"}]
        body = json.dumps({**about, "choices": choices}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Ran(NamedTuple):
    seconds: float
    cpu: float
    embedded: int
    prompts: list[str]
    error: str
    """The last line of its error output; empty if it did not fail."""


class Bench:
    """One app, with folders of its own."""

    def __init__(self, app: App, python: str, scratch: Path) -> None:
        self._app, self._python = app, python
        self._folder, self._branches = scratch / "one", scratch / "branches"
        shutil.copytree(HERE / "documents", self._folder / "documents")
        for branch in BRANCHES:
            copies = shutil.copytree(HERE / "documents", self._branches / "documents" / branch)
            for copy in copies.glob("*.md"):
                copy.write_text(re.sub("(## .*)", rf"\1 in {branch}", copy.read_text()))

    def run(self, folder: Path, *questions: str, stop: int = 0, file: Path | None = None) -> Ran:
        log = folder / "embedded.log"
        log.write_text("")
        prompts: list[str] = []
        model = ThreadingHTTPServer(("127.0.0.1", 0), type("_", (ChatModel,), {"prompts": prompts}))
        threading.Thread(target=model.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{model.server_port}/v1"
        env = {**os.environ, **SETTINGS, "OPENAI_BASE_URL": url, "OPENAI_API_BASE": url}
        command = [self._python, __file__, "--counted", file or HERE / self._app.file, log]
        cpu, began = _cpu(), time.perf_counter()
        with subprocess.Popen(
            [*map(str, command), str(stop), *questions],
            cwd=folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while stop and process.poll() is None:
                if _lines(log) >= stop:
                    time.sleep(1)  # the app may still be writing what was embedded before
                    process.kill()
                time.sleep(0.05)
            _, said = process.communicate(timeout=DEADLINE)
        seconds, cpu = time.perf_counter() - began, _cpu() - cpu
        model.shutdown()
        error = said.strip().splitlines()[-1:] if process.returncode else []
        return Ran(seconds, cpu, _lines(log), prompts, "".join(error))

    def ask(self, *questions: str, folder: Path | None = None) -> Ran:
        ran = self.run(folder or self._folder, *questions)
        if ran.error or len(ran.prompts) != len(questions):
            sys.exit(f"{self._app.file} failed: {ran.error}")
        return ran

    def measure(self) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for run, made in {"first run": ("index", ".lorebind"), "second run": ()}.items():
            runs = []
            for _ in range(ROUNDS):
                for folder in made:
                    shutil.rmtree(self._folder / folder, ignore_errors=True)
                runs.append(self.ask(REFUND))
            best = min(runs)
            row[f"{run}: seconds, of a processor"] = f"{best.seconds:.1f}, {best.cpu:.1f}"
            row[f"{run}: texts embedded"] = best.embedded
        row |= self.typo(best.prompts[0]) | self.questions()

        returns = self._folder / "documents" / "returns.md"
        returns.write_text(returns.read_text().replace("ten working", "three working"))
        edited = self.ask(REFUND)
        row["one file edited: texts embedded"] = edited.embedded
        row["… the prompt has the old text"] = "ten working" in edited.prompts[0]
        row["… the prompt has the new text"] = "three working" in edited.prompts[0]

        (self._folder / "documents" / "warranty.md").unlink()
        deleted = self.ask(WARRANTY)
        row["one file deleted: texts embedded"] = deleted.embedded
        row["… the prompt has its text"] = "covered for four years" in deleted.prompts[0]
        return row | self.killed()

    def typo(self, right: str) -> dict[str, Any]:
        """The last line of the message, or what changes without one."""
        wrong = self._folder / "typo_app.py"
        wrong.write_text((HERE / self._app.file).read_text().replace(*self._app.typo))
        ran = self.run(self._folder, REFUND, file=wrong)
        said = f"`{ran.error[:150]}`"
        if not ran.error:
            now, before = (len(_sections(prompt)) for prompt in (ran.prompts[0], right))
            said = f"nothing; {now} passages instead of {before}"
        return {"a typo in the number of passages says": said}

    def questions(self) -> dict[str, Any]:
        """Ten that the documents answer in other words, and one that they do not answer."""
        lines = (HERE / "questions.tsv").read_text().splitlines()
        asked, answering, wanted = zip(*(line.split("\t") for line in lines), strict=True)
        *prompts, tungsten = self.ask(*asked, TUNGSTEN).prompts
        files = sections = 0
        for prompt, file, section in zip(prompts, answering, wanted, strict=True):
            text = (HERE / "documents" / f"{file}.md").read_text()
            files += not _sections(text).isdisjoint(_sections(prompt))
            sections += section in _sections(prompt)
        weak = sum("only weakly" in prompt for prompt in prompts)
        passages = len(_sections(tungsten))
        notice = "told that they match weakly" if "only weakly" in tungsten else "no notice"
        return {
            "10 questions: prompts with the right file, the right section": f"{files}, {sections}",
            "… that call the match weak": weak,
            "boiling point of tungsten: the prompt has": f"{passages} passages, {notice}",
        }

    def killed(self) -> dict[str, Any]:
        cut = self.run(self._branches, REFUND, stop=KILLED_AFTER)
        after = self.ask(REFUND, folder=self._branches)
        files = (self._branches / "documents").rglob("*.md")
        expected = {section for file in files for section in _sections(file.read_text())}
        held = [section for text in stored(self._branches) for section in _sections(text)]
        missing, twice = len(expected - set(held)), len(held) - len(set(held))
        embedded = f"{cut.embedded}, {after.embedded}"
        return {
            "killed: texts embedded until then, by the next run": embedded,
            f"… of {len(expected)} sections missing, held twice": f"{missing}, {twice}",
        }


def stored(folder: Path) -> list[str]:
    """The passages in an index on disk: a catalog of Lorebind or a database of Chroma."""
    database = folder / ".lorebind" / "lorebind.db"
    ask = "select text from catalog_chunks"
    if not database.exists():
        database = folder / "index" / "chroma" / "chroma.sqlite3"
        ask = "select string_value from embedding_metadata where key = 'chroma:document'"
    with sqlite3.connect(database) as connection:
        return [text for (text,) in connection.execute(ask)]


def _sections(text: str) -> set[str]:
    """The headings in a text: each passage has its own, whatever is written around it."""
    return {heading.strip() for heading in re.findall("## (.+)", text)}


def _lines(log: Path | str) -> int:
    return len(Path(log).read_text().splitlines())


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    if sys.argv[1:2] == ["--counted"]:
        counted(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
    else:
        main()
