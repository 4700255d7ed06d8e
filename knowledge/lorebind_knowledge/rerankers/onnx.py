"""A cross-encoder on ONNX Runtime, which reads question and passage together on this machine.

The graph has the form that exports of a sequence classifier usually have. The inputs are
`input_ids`, `attention_mask` and, for some models, `token_type_ids`. The output is either one logit
per pair, or two classes of which the second is "relevant". The logistic function turns a logit into
a score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE
from lorebind_config.declarations.retrieval import RerankerBase
from lorebind_config.errors import RerankerError
from lorebind_knowledge.plumbing.lanes import usable_processors
from lorebind_knowledge.plumbing.run_once import PerProcess, cpu_session
from lorebind_knowledge.plumbing.tokenizing import encodable
from lorebind_knowledge.rerankers.base import Reranker, logistic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_config.declarations.base import Wants
    from lorebind_config.reading.make_part import PartEnvironment

_TYPES = {"tensor(int64)": "int64", "tensor(int32)": "int32"}
_KNOWN = ("input_ids", "attention_mask", "token_type_ids")


class OnnxRerankDeclaration(RerankerBase):
    """A cross-encoder on this machine, exported to ONNX."""

    templated: ClassVar[tuple[str, ...]] = ("model_path", "tokenizer_path")

    provider: Literal["onnx"] = Field(description="A cross-encoder on ONNX Runtime.")
    model_path: str = Field(
        min_length=1, description="Path of the model.onnx, relative to the project folder."
    )
    tokenizer_path: str | None = Field(
        None,
        min_length=1,
        description="Path of its tokenizer.json. By default the file next to the model.",
    )
    max_length: int = Field(
        512,
        ge=8,
        le=8192,
        description="Maximum number of tokens of a question and a passage together. "
        "Longer pairs are truncated.",
    )
    batch_size: int = Field(8, ge=1, le=256, description="Passages per run of the model.")
    threads: int | None = Field(
        None, ge=1, description="Threads of the model. By default chosen for this machine."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "model_path", "read", OUTSIDE
        yield "tokenizer_path", "read", OUTSIDE


Declaration = OnnxRerankDeclaration


def make(declaration: OnnxRerankDeclaration, environment: PartEnvironment) -> Reranker:
    model_path = environment.root / environment.fill(declaration.model_path)
    written = environment.fill(declaration.tokenizer_path)
    beside = model_path.with_name("tokenizer.json")
    return OnnxReranker(
        model_path,
        beside if written is None else environment.root / written,
        max_length=declaration.max_length,
        batch_size=declaration.batch_size,
        threads=declaration.threads,
    )


class OnnxReranker(Reranker):
    """A cross-encoder. Thread-safe; loads the model and the tokenizer at the first call."""

    def __init__(
        self,
        model_path: Path,
        tokenizer_path: Path,
        *,
        max_length: int = 512,
        batch_size: int = 8,
        threads: int | None = None,
    ) -> None:
        """
        Args:
            model_path: the graph, `model.onnx`; external weights next to it are found.
            tokenizer_path: the `tokenizer.json` that the model was trained with.
            max_length: maximum tokens of a pair; the longer text of a longer pair is truncated.
            batch_size: pairs per run; they are sorted by length first.
            threads: threads per run; None chooses by the processors this process may use.
        """
        self._model_path, self._tokenizer_path = model_path, tokenizer_path
        self._max_length, self._batch_size = max_length, batch_size
        self._threads = threads or usable_processors()
        self._parts = PerProcess(self._load)

    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float | None]:
        tokenizer, session = self._parts.get()
        pairs = [(encodable(question), encodable(text)) for text in texts]
        encodings = tokenizer.encode_batch(pairs)
        # Pairs of similar length together, because a run is padded to its longest.
        by_length = sorted(range(len(pairs)), key=lambda row: len(encodings[row].ids))
        figures: list[float | None] = [None] * len(pairs)
        for first in range(0, len(by_length), self._batch_size):
            rows = by_length[first : first + self._batch_size]
            logits = self._run(session, tokenizer, [encodings[row] for row in rows])
            for row, logit in zip(rows, logits, strict=True):
                figures[row] = logistic(logit)
        return figures

    def _run(self, session: Any, tokenizer: Any, encodings: Sequence[Any]) -> list[float]:
        """Return the logits of one padded run."""
        import numpy as np

        width = max(len(encoding.ids) for encoding in encodings)
        ids = np.full((len(encodings), width), _padding(tokenizer), dtype=np.int64)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
            types[row, : len(encoding.ids)] = encoding.type_ids
        arrays = dict(zip(_KNOWN, (ids, mask, types), strict=True))
        inputs = {
            node.name: arrays[node.name].astype(_TYPES[node.type]) for node in session.get_inputs()
        }
        answer = np.asarray(session.run(None, inputs)[0], dtype=np.float64)
        return self._logits(answer, len(encodings))

    def _logits(self, answer: NDArray[np.float64], pairs: int) -> list[float]:
        import numpy as np

        if answer.shape == (pairs, 2):
            answer = answer[:, 1] - answer[:, 0]  # a softmax of two is the logistic of their gap
        if answer.shape not in ((pairs,), (pairs, 1)):
            raise RerankerError(
                f"the model {self._model_path} returned an array of shape {answer.shape} for "
                f"{pairs} pairs; expected ({pairs}, 1) or ({pairs}, 2): is it a cross-encoder?"
            )
        if not np.isfinite(answer).all():
            raise RerankerError(f"the model {self._model_path} returned a score that is not finite")
        logits: list[float] = answer.reshape(-1).tolist()
        return logits

    def _load(self) -> tuple[Any, Any]:
        return self._load_tokenizer(), self._load_session()

    def _load_tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_str(self._tokenizer_path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RerankerError(
                f"cannot read the tokenizer {self._tokenizer_path}: {error.strerror}"
            ) from error
        except Exception as error:  # tokenizers raises no narrower class
            raise RerankerError(
                f"{self._tokenizer_path} is not a tokenizer.json: {error}"
            ) from error
        tokenizer.enable_truncation(self._max_length)
        # The file may ask for padding to a fixed length; each run is padded to its longest pair.
        tokenizer.no_padding()
        return tokenizer

    def _load_session(self) -> Any:
        if not self._model_path.is_file():
            raise RerankerError(f"there is no model {self._model_path}")
        try:
            session = cpu_session(str(self._model_path), self._threads)
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            raise RerankerError(f"cannot load the model {self._model_path}: {error}") from error
        for node in session.get_inputs():
            if node.name not in _KNOWN or node.type not in _TYPES:
                raise RerankerError(
                    f"the model {self._model_path} has an input {node.name!r} of {node.type}; "
                    f"a cross-encoder has integers in {', '.join(_KNOWN)}"
                )
        return session


def _padding(tokenizer: Any) -> int:
    """Return the padding token's id; some graphs count positions by it."""
    for name in ("[PAD]", "<pad>"):
        if (logits := tokenizer.token_to_id(name)) is not None:
            return int(logits)
    return 0
