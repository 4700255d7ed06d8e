"""An embedder that takes its time and keeps a record of what it was asked to embed."""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path

from langchain_core.embeddings import Embeddings


class Slow(Embeddings):
    """Appends the texts of each call to the file `SLOW_LOG`, then sleeps `SLOW_SECONDS`.

    With `SLOW_GATE`, it waits before that until the file of that name is there.
    """

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        with Path(os.environ["SLOW_LOG"]).open("a", encoding="utf-8") as log:
            log.write(json.dumps(texts) + "\n")
        gate, deadline = os.environ.get("SLOW_GATE"), time.monotonic() + 60
        while gate and not Path(gate).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(float(os.environ["SLOW_SECONDS"]))
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        code = zlib.crc32(text.encode())
        return [1.0, *((code >> shift) % 16 / 16 for shift in range(0, 28, 4))]
