"""The results of packing and unpacking a knowledge base."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lorebind_knowledge.ingest.report import IngestReport


@dataclass(frozen=True, slots=True)
class PackReport:
    """The content of a pack that was written."""

    kb_id: str
    documents: int
    """Number of documents, including those that failed."""
    chunks: int
    added: int
    """Number of documents that were added by hand, which it has as they were added."""
    embedder: str
    """The embedder that has made its vectors."""
    bytes: int
    """The size of the file."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that the pack's declaration has, and the one in use, if they are not equal."""

    key: str
    """The path of the setting, such as `chunking.size`."""
    packed: Any
    """The value in the pack; None if it declares none."""
    declared: Any
    """The value in use; None if the default is."""


@dataclass(slots=True)
class UnpackReport(IngestReport):
    """The results of unpacking, in the form of an ingest's."""

    embedder_before: str = ""
    """The embedder of the pack's vectors."""
    tokens_embedded: int = 0
    """Number of tokens in the texts that were embedded."""
    cost: float | None = None
    """Their cost, in the currency of the embedder's `price_per_million_tokens`; None without."""
    differences: list[Difference] = field(default_factory=list)
    """Where the declaration in use, which stays, differs from the pack's."""
