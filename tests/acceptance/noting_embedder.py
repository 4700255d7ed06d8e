"""An embedder that logs every text it receives, in a file that outlives its process."""

from __future__ import annotations

import json
import os
import zlib

from langchain_core.embeddings import Embeddings

LETTERS = "etaoinshrdlucmfw"


class Noting(Embeddings):
    """Appends the texts of each call as a line of JSON to the file `EMBEDDED_LOG`."""

    def __init__(self, revision: str = "one") -> None:
        self._revision = revision

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        line = json.dumps({"revision": self._revision, "texts": texts}).encode() + b"\n"
        log = os.open(os.environ["EMBEDDED_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(log, line)
        finally:
            os.close(log)
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        code = zlib.crc32(f"{self._revision} {text}".encode())
        bits = [(code >> shift) % 16 / 16 for shift in range(0, 28, 4)]
        return [1.0, *(text.count(letter) / len(text) for letter in LETTERS), *bits]
