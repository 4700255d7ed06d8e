"""Run a program of a peer in a folder of its own, and count what it embeds."""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TASKS = HERE / "tasks"
PAGES = ROOT / "examples" / "quickstart" / "docs"
MODEL = ROOT / "knowledge" / "lorebind_knowledge" / "embedders"
DEADLINE = 1800
PACE = 0.025
"""Seconds per text, as the model needs on a quiet machine."""
QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "OTEL_SDK_DISABLED": "true",
    "TOKENIZERS_PARALLELISM": "false",
}


class Ran(NamedTuple):
    """The end of a program."""

    exit_code: int
    """Below 0 when a signal ended the program."""
    seconds: float
    own_cpu: float
    """Processor seconds outside of the shared model, which are steadier on a busy machine."""
    texts: int
    """Texts of documents that were embedded."""
    output: str
    errors: str


class Workplace:
    """A folder with the pages, the programs of a peer and its index."""

    def __init__(self, peer: str, python: Path, folder: Path, vectors: Path) -> None:
        self.folder = folder
        self._peer, self._python, self._vectors = peer, python, vectors
        shutil.copytree(PAGES, folder / "docs", ignore=shutil.ignore_patterns("LICENSE"))
        for source in (TASKS, TASKS / peer):
            for file in source.iterdir():
                if file.is_file():
                    shutil.copy(file, folder / file.name)

    @property
    def docs(self) -> Path:
        return self.folder / "docs"

    def run(
        self, program: str, *arguments: str | Path, kill_after: int = 0, paced: bool = False
    ) -> Ran:
        """Run a program to its end.

        Args:
            kill_after: the program kills itself after this many texts of documents; 0 is never.
            paced: the model takes the time that it needs on a quiet machine. Otherwise, vectors
                that are known take none.
        """
        log = self.folder / "embedded.log"
        log.write_text("", encoding="utf-8")
        folder = str(self.folder)
        env = QUIET | {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "XDG_DATA_HOME": str(self.folder / "data"),
            "PYTHONPATH": folder,
            "COMPARE_MODEL": str(MODEL),
            "COMPARE_LOG": str(log),
            "COMPARE_NETWORK": str(self.folder / "network.log"),
            "COMPARE_KILL_AFTER": str(kill_after),
            "COMPARE_PACE": str(PACE if paced or kill_after else 0),
            "COMPARE_VECTORS": str(self._vectors),
        }
        command = [self._python, program, *arguments]
        began, cpu = time.perf_counter(), _cpu()
        ended = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=DEADLINE
        )
        seconds, cpu = time.perf_counter() - began, _cpu() - cpu
        batches = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
        return Ran(
            ended.returncode,
            seconds,
            cpu - sum(float(used) for *_, used in batches),
            sum(int(texts) for kind, texts, *_ in batches if kind == "documents"),
            ended.stdout,
            ended.stderr,
        )

    def succeed(self, program: str, *arguments: str | Path, paced: bool = False) -> Ran:
        """Run a program that must end well.

        Raises:
            RuntimeError: it failed; the message ends with its errors.
        """
        ran = self.run(program, *arguments, paced=paced)
        if ran.exit_code:
            raise RuntimeError(f"{self._peer}/{program} failed:\n{ran.errors[-3000:]}")
        return ran

    def passages(self) -> list[str]:
        """The texts of all passages that a search can find now."""
        dump = "dump.py" if (self.folder / "dump.py").exists() else "dump_chroma.py"
        texts: list[str] = json.loads(self.succeed(dump).output)
        return texts

    def sync_program(self) -> str:
        """The program that keeps the index up to date; a peer may need no other than `ask.py`."""
        return "sync.py" if (self.folder / "sync.py").exists() else "ask.py"

    def hosts(self) -> list[str]:
        """The machines that programs have tried to reach."""
        log = self.folder / "network.log"
        return sorted(set(log.read_text(encoding="utf-8").split())) if log.exists() else []


def sources(peer: str, task: str) -> list[Path]:
    """The files that a user writes for a task: configuration, if there is any, and code."""
    configured = {"ask": "lorebind.yaml", "agents": "agents.yaml"}.get(task, "-")
    files = [TASKS / peer / configured, TASKS / peer / f"{task}.py"]
    return [file for file in files if file.exists()]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def lines_of_code(*files: Path) -> tuple[int, int]:
    """Count the lines that are not blank, a comment or the docstring, and the imports of these."""
    lines = imported = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        code = {n for n, line in enumerate(text.splitlines(), 1) if re.match(r"\s*[^\s#]", line)}
        if file.suffix == ".py":
            docstring, *statements = ast.parse(text).body
            code -= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
            imported += sum(
                (node.end_lineno or 0) - node.lineno + 1
                for node in statements
                if isinstance(node, ast.Import | ast.ImportFrom)
            )
        lines += len(code)
    return lines, imported
