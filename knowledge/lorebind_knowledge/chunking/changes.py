"""Measure how much the subject changes between neighboring segments, and find where it changes.

At each gap, the mean of the vectors before it is compared with the mean of those after it, over up
to `window` segments on each side. This is the block comparison of TextTiling (Hearst, 1997,
https://aclanthology.org/J97-1003/), which is steadier than comparing two sentences.

The four rules for the gaps are those of LangChain's `SemanticChunker` (langchain-experimental),
after Greg Kamradt's "5 Levels of Text Splitting". A gap is chosen if its score reaches the rule's
cutoff. Gaps with the lowest score are never chosen, so a text without changes is not split.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from lorebind_knowledge.text.splitting import words_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lorebind_knowledge.records import Matrix

    Embed: TypeAlias = Callable[[Sequence[str]], Matrix]
    """Returns vectors for texts: row i is for text i. Raises `EmbedderError` on failure."""

Rule: TypeAlias = Literal["percentile", "standard_deviation", "interquartile", "gradient"]


def breakpoints(scores: Sequence[float], rule: Rule, threshold: float) -> set[int]:
    """Return the indices of the scores at which to break.

    Args:
        scores: one for each gap; higher is a greater change.
        rule: `percentile`: the score is at or above the percentile `threshold`;
            `standard_deviation`: it is at least `threshold` standard deviations above the mean;
            `interquartile`: it is at least `threshold` interquartile ranges above the upper
            quartile, Tukey's fence (with fewer than four scores: at or above the upper quartile);
            `gradient`: its rise from the previous score is at or above the percentile `threshold`
            of all rises. A fall counts as a rise of 0.
        threshold: in the unit of the rule.
    """
    import numpy as np

    values = np.asarray(scores, dtype=np.float64)
    if rule == "gradient":
        values = np.maximum(np.diff(values, prepend=values[:1]), 0.0)
    if not len(values):
        return set()
    chosen = (values >= _cutoff(values, rule, threshold)) & (values > values.min())
    return {int(index) for index in np.flatnonzero(chosen)}


def _cutoff(values: npt.NDArray[np.float64], rule: Rule, threshold: float) -> float:
    import numpy as np

    if rule == "standard_deviation":
        return float(values.mean() + threshold * values.std())
    if rule == "interquartile" and len(values) < 4:
        return float(np.percentile(values, 75))
    if rule == "interquartile":
        lower, upper = np.percentile(values, [25, 75])
        return float(upper + threshold * (upper - lower))
    return float(np.percentile(values, threshold))


_BATCH = 256
_DIMENSION = 512


def distances(texts: Sequence[str], embed: Embed, window: int) -> list[float]:
    """Return the cosine distance, from 0 to 1, at each gap between the texts.

    Memory use does not depend on the number of texts: at most a batch and two windows of vectors
    are held. If the mean of a window is the zero vector, its distance is 1.
    """
    import numpy as np

    values: list[float] = []
    held: Matrix | None = None
    for at in range(0, len(texts), _BATCH):
        batch = _unit(embed(texts[at : at + _BATCH]))
        held = batch if held is None else np.concatenate([held[-2 * window :], batch])
        seen = at + len(batch)
        offset = seen - len(held)  # index of the text that the first held row belongs to
        gaps = seen - 1 if seen == len(texts) else seen - window
        for gap in range(len(values), gaps):
            here = gap + 1 - offset
            before = held[max(0, here - window) : here].mean(axis=0)
            after = held[here : here + window].mean(axis=0)
            lengths = np.linalg.norm(before) * np.linalg.norm(after)
            cosine = float(before @ after / lengths) if lengths > 1e-12 else 0.0
            # Rounded so that equal texts get equal distances regardless of the order of summation.
            values.append(round(1.0 - min(1.0, max(0.0, cosine)), 6))
    return values


def lexical_vectors(texts: Sequence[str]) -> Matrix:
    """Return word counts hashed to 512 dimensions: texts that share words are close together."""
    import numpy as np

    vectors: Matrix = np.zeros((len(texts), _DIMENSION), dtype=np.float32)
    for row, text in enumerate(texts):
        for word, count in Counter(words_of(text)).items():
            vectors[row, zlib.crc32(word.encode("utf-8", "replace")) % _DIMENSION] += count
    return vectors


def _unit(vectors: Matrix) -> Matrix:
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Matrix = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
