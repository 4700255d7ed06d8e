"""A slow embedder that logs the texts it receives."""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path

from langchain_core.embeddings import Embeddings


class Slow(Embeddings):
    """Appends the texts of each call to the file `SLOW_LOG`, then sleeps `SLOW_SECONDS`.

    With `SLOW_GATE`, a call first waits until the file of that name has as many bytes as the log
    has calls.
    """

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        log = Path(os.environ["SLOW_LOG"])
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(texts) + "\n")
        if os.environ["SLOW_GATE"]:
            wait(Path(os.environ["SLOW_GATE"]), len(log.read_text(encoding="utf-8").splitlines()))
        time.sleep(float(os.environ["SLOW_SECONDS"]))
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        code = zlib.crc32(text.encode())
        return [1.0, *((code >> shift) % 16 / 16 for shift in range(0, 28, 4))]


def calls_in(log: Path) -> list[list[str]]:
    """Return the texts of each call, without one whose line is still being written."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait(gate: Path, size: int) -> None:
    deadline = time.monotonic() + 60
    while not (gate.exists() and gate.stat().st_size >= size):
        assert time.monotonic() < deadline
        time.sleep(0.02)
