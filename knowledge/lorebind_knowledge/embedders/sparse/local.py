"""The built-in sparse embedder: SPLADE-tiny on ONNX Runtime, without a key, server or network.

A BERT of two layers gives each term of its vocabulary the weight
`log(1 + max(0, max over the tokens of the logits))` (SPLADE, Formal et al., 2021,
https://arxiv.org/abs/2107.05720). The weights and the vocabulary, which is that of the dense model,
are part of this package; `scripts/sparse_model.py` made the graph from the published weights.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lorebind_config.declarations.embedders import SparseEmbedderBase
from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders.base import Fingerprint
from lorebind_knowledge.embedders.local import (
    LocalEmbedderConfig,
    load_tokenizer,
    read_model,
    weights_of,
)
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
from lorebind_knowledge.plumbing.lanes import usable_processors
from lorebind_knowledge.plumbing.run_once import PerProcess, cpu_session
from lorebind_knowledge.records import SparseVector

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lorebind_config.reading.make_part import PartEnvironment

MODEL = "splade-tiny"
TERMS = 30522

MIN_WEIGHT = 0.6
"""On four collections, nDCG@10 without the lighter terms of passages differs by at most .004; a
passage keeps 40 to 100 terms of about 180."""

_WEIGHTS_SHA256 = "72c2326b0fd6de17504c58271bd27145237de452f76d85ec7801a608f3a18e81"


class LocalSparseEmbedderConfig(LocalEmbedderConfig):
    """Settings of the sparse embedder that runs on this machine."""

    min_weight: float = Field(
        MIN_WEIGHT,
        ge=0,
        le=10,
        description="Terms of passages with a lower weight are dropped. Those of questions stay.",
    )


class LocalSparseEmbedderDeclaration(SparseEmbedderBase):
    """SPLADE-tiny on this machine, for English: no key, no network."""

    provider: Literal["local"] = Field(description="Runs on this machine.")
    model: Literal["splade-tiny"] = Field("splade-tiny", description="The sparse model.")
    config: LocalSparseEmbedderConfig = Field(
        default_factory=LocalSparseEmbedderConfig, description="How the model is run."
    )


Declaration = LocalSparseEmbedderDeclaration


def make(
    declaration: LocalSparseEmbedderDeclaration, environment: PartEnvironment
) -> SparseEmbedder:
    config = declaration.config
    written = environment.fill(config.model_path)
    return LocalSparseEmbedder(
        min_weight=config.min_weight,
        batch_size=config.batch_size,
        threads=config.threads,
        model_path=None if written is None else environment.root / written,
    )


class LocalSparseEmbedder(SparseEmbedder):
    """SPLADE-tiny, 30,522 terms; the product with the vocabulary in 8-bit integers.

    Thread-safe. The model is loaded at the first call, which takes about 0.1 s.
    """

    languages = frozenset({"en"})

    def __init__(
        self,
        *,
        min_weight: float = MIN_WEIGHT,
        batch_size: int = 64,
        threads: int | None = None,
        model_path: Path | None = None,
    ) -> None:
        """
        Args:
            min_weight: terms of passages with a lower weight are dropped.
            batch_size: texts per call.
            threads: the number of texts that run at the same time; None chooses by the processors
                this process may use.
            model_path: another graph with the same input, output and vocabulary.
        """
        self.batch_size = batch_size
        self._min_weight = min_weight
        self._threads = threads or usable_processors()
        self._model_path = model_path
        self._parts = PerProcess(self._load)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        weights = weights_of(self._model_path, _WEIGHTS_SHA256)
        revision = f"{weights}, min_weight {self._min_weight:g}"
        return Fingerprint("local", MODEL, revision, TERMS, normalised=False)

    def embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        tokenizer, session = self._parts.get()
        encodings = tokenizer.encode_batch(list(texts))

        def run(encoding: Any) -> SparseVector:
            return _run(session, encoding.ids, self._min_weight)

        # One text per run: padding would only add to the product with the vocabulary.
        with ThreadPoolExecutor(max(1, min(self._threads, len(texts)))) as threads:
            return list(threads.map(run, encodings))

    def embed_query(self, text: str) -> SparseVector:
        tokenizer, session = self._parts.get()
        return _run(session, tokenizer.encode(text).ids, 0.0)

    def terms(self, ids: Sequence[int]) -> list[str]:
        tokenizer, _ = self._parts.get()
        return [tokenizer.id_to_token(int(number)) or "" for number in ids]

    def _load(self) -> tuple[Any, Any]:
        # One thread for a run, because `embed_documents` has several at the same time.
        return load_tokenizer(), cpu_session(_read_weights(self._model_path), 1)


def _run(session: Any, token_ids: Sequence[int], min_weight: float) -> SparseVector:
    import numpy as np

    (weights,) = session.run(["weights"], {"token_ids": np.array(token_ids, dtype=np.int64)})
    ids = np.flatnonzero((weights > 0) & (weights >= min_weight))
    return SparseVector(ids, weights[ids])


def _read_weights(model_path: Path | None) -> bytes:
    if model_path is not None:
        return read_model(model_path)
    repair = "reinstall them with: pip install --force-reinstall --no-deps lorebind"
    try:
        weights = (
            resources.files("lorebind_knowledge.embedders") / "splade_tiny.onnx"
        ).read_bytes()
    except OSError as error:
        raise EmbedderError(f"the weights of {MODEL} are not installed; {repair}") from error
    if hashlib.sha256(weights).hexdigest() != _WEIGHTS_SHA256:
        raise EmbedderError(f"the weights of {MODEL} are not the ones of this version; {repair}")
    return weights
