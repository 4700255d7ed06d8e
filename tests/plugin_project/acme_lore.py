"""A third-party package with one plugin per group, as its author would write them."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from lorebind.plugin import (
    Chunker,
    ChunkerBase,
    Content,
    Declaration,
    DocumentTransform,
    DocumentTransformBase,
    Embedder,
    EmbedderBase,
    Event,
    Extension,
    ExtensionBase,
    Fingerprint,
    Interval,
    LoadedDocument,
    Reranker,
    RerankerBase,
    Secret,
    SourceBase,
    SourceItem,
    SparseEmbedder,
    SparseEmbedderBase,
    SparseVector,
    TokenizerBase,
    VectorDBBase,
)
from lorebind_config.templates import Environment
from lorebind_knowledge.stores.memory import MemoryStore

if TYPE_CHECKING:
    from lorebind_knowledge.records import Matrix, Vector

WORD = re.compile(r"\w+")


class AcmeConfig(Declaration):
    """Settings of the Acme embedder."""

    dimension: int = Field(64, ge=8, le=512, description="Length of the vectors.")


class AcmeEmbedderDeclaration(EmbedderBase):
    """Acme's embedding service."""

    templated = ("api_key",)

    provider: Literal["acme"] = Field(description="Calls Acme.")
    api_key: Secret | None = Field(None, description="Sent with every call.")
    config: AcmeConfig = Field(default_factory=AcmeConfig, description="The shape of vectors.")


class AcmeEmbedder(Embedder):
    """An embedder that hashes groups of three letters."""

    batch_size = 16

    def __init__(self, dimension: int, api_key: str | None = None) -> None:
        self._dimension, self._api_key = dimension, api_key

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("acme", "threes", "1", self._dimension)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        if self._api_key == "refused-key":
            raise RuntimeError(f"401: {self._api_key} is not valid")
        matrix: Matrix = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            padded = f"  {text.lower()} "
            for at in range(len(padded) - 2):
                part = padded[at : at + 3].encode("utf-8", "replace")
                matrix[row, zlib.crc32(part) % self._dimension] += 1
        return matrix

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_documents([text])[0]
        return vector


class embedder:  # noqa: N801 - an entry point names it
    """`lorebind.embedders`: acme."""

    Declaration = AcmeEmbedderDeclaration

    @staticmethod
    def make(declaration: AcmeEmbedderDeclaration, environment: Environment) -> AcmeEmbedder:
        key = environment.fill(declaration.api_key)
        if key == "unreachable-key":
            raise RuntimeError(f"no route to acme with {key}")
        return AcmeEmbedder(declaration.config.dimension, key)


class AcmeSparseDeclaration(SparseEmbedderBase):
    """Acme's sparse embedding service."""

    templated = ("api_key",)

    provider: Literal["acme"] = Field(description="Calls Acme.")
    api_key: Secret | None = Field(None, description="Sent with every call.")


class AcmeSparseEmbedder(SparseEmbedder):
    """A sparse embedder that counts words; ids are their checksums."""

    batch_size = 16

    def __init__(self, api_key: str | None = None) -> None:
        self._api_key = api_key
        self._words: dict[int, str] = {}

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("acme", "words", "1")

    def embed_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        if self._api_key == "refused-key":
            raise RuntimeError(f"401: {self._api_key} is not valid")
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> SparseVector:
        words = {zlib.crc32(word.encode()) >> 1: word for word in WORD.findall(text.lower())}
        self._words |= words
        return SparseVector(np.array([*words]), np.ones(len(words)))

    def terms(self, ids: Sequence[int]) -> list[str]:
        return [self._words.get(number, "") for number in ids]


class sparse_embedder:  # noqa: N801
    """`lorebind.sparse_embedders`: acme."""

    Declaration = AcmeSparseDeclaration

    @staticmethod
    def make(declaration: AcmeSparseDeclaration, environment: Environment) -> AcmeSparseEmbedder:
        return AcmeSparseEmbedder(environment.fill(declaration.api_key))


class AcmeVectorDB(VectorDBBase):
    """Vectors in Acme's cloud."""

    type: Literal["acme"] = Field(description="Kept at Acme's.")


class AcmeStore(MemoryStore):
    """A store that forgets everything when the process ends, and says so."""

    persistent = False


class vector_db:  # noqa: N801
    """`lorebind.vector_dbs`: acme."""

    Declaration = AcmeVectorDB

    @staticmethod
    def make(declaration: AcmeVectorDB, environment: Environment) -> AcmeStore:
        return AcmeStore()


class AcmeWikiDeclaration(SourceBase):
    """Pages of a wiki, which is one file of JSON."""

    templated = ("file",)

    type: Literal["acme_wiki"] = Field(description="A wiki of Acme.")
    file: str = Field(description="The file, relative to the project folder.")


class AcmeWiki:
    """A source where each page of the wiki is a document."""

    def __init__(self, key: str, path: str) -> None:
        self.key, self._path = key, path

    def items(self) -> Iterator[SourceItem]:
        with open(self._path, encoding="utf-8") as file:
            pages = json.load(file)
        for name, text in pages.items():
            yield SourceItem(name, partial(_page, text))


def _page(text: str, version: str) -> Content:
    return Content(text.encode(), "text/plain")


class source:  # noqa: N801
    """`lorebind.sources`: acme_wiki."""

    Declaration = AcmeWikiDeclaration

    @staticmethod
    def make(declaration: AcmeWikiDeclaration, environment: Environment) -> AcmeWiki:
        file = environment.fill(declaration.file)
        return AcmeWiki(declaration.file, str(environment.root / file))


class loader:  # noqa: N801
    """`lorebind.loaders`: acme. Reads notes, whose first line is the title, in capitals."""

    suffixes = (".acme",)
    media_types = ("application/x-acme",)

    @staticmethod
    def load(data: bytes, uri: str) -> LoadedDocument:
        text = data.decode()
        return LoadedDocument(text, text.partition("\n")[0].title(), format="acme")


class AcmeRedaction(DocumentTransformBase):
    """Removes words."""

    type: Literal["acme"] = Field(description="Removes words.")
    words: list[str] = Field(description="The words.")


class AcmeTransform(DocumentTransform):
    """A step that replaces words, wherever they occur."""

    def __init__(self, words: Sequence[str]) -> None:
        self._pattern = re.compile("|".join(map(re.escape, words)))

    @property
    def fingerprint(self) -> str:
        return self._pattern.pattern

    def transform(self, document: LoadedDocument, uri: str) -> LoadedDocument:
        return document.replaced(self._pattern, "[removed]")


class document_transform:  # noqa: N801
    """`lorebind.document_transforms`: acme."""

    Declaration = AcmeRedaction

    @staticmethod
    def make(declaration: AcmeRedaction, environment: Environment) -> AcmeTransform:
        return AcmeTransform(declaration.words)


class AcmeChunking(ChunkerBase):
    """Splits at semicolons."""

    strategy: Literal["acme"] = Field(description="Cuts at a mark.")
    mark: str = Field(";", min_length=1, max_length=1, description="Where it is cut.")


class AcmeChunker(Chunker):
    """A chunker where each part ends with its mark."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    @property
    def fingerprint(self) -> str:
        return f"at {self._mark}"

    def split(
        self, text: str, start: int, end: int, boundaries: Sequence[int] = ()
    ) -> list[Interval]:
        intervals: list[Interval] = []
        while start < end:
            at = text.find(self._mark, start, end)
            stop = end if at < 0 else at + 1
            if text[start:stop].strip():
                intervals.append((start, stop))
            start = stop
        return intervals


class chunker:  # noqa: N801
    """`lorebind.chunkers`: acme."""

    Declaration = AcmeChunking

    @staticmethod
    def make(declaration: AcmeChunking, environment: Environment) -> AcmeChunker:
        return AcmeChunker(declaration.mark)


class AcmeReranking(RerankerBase):
    """Counts the words that question and passage share."""

    provider: Literal["acme"] = Field(description="Asks Acme.")


class AcmeReranker(Reranker):
    def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        words = set(WORD.findall(question.lower()))
        overlaps = [words & set(WORD.findall(text.lower())) for text in texts]
        return [len(shared) / max(1, len(words)) for shared in overlaps]


class reranker:  # noqa: N801
    """`lorebind.rerankers`: acme."""

    Declaration = AcmeReranking

    @staticmethod
    def make(declaration: AcmeReranking, environment: Environment) -> AcmeReranker:
        return AcmeReranker()


class AcmeTokenizing(TokenizerBase):
    """One token per word."""

    provider: Literal["acme"] = Field(description="Counts words.")


class AcmeCounter:
    name = "acme words"
    exact = True

    def count(self, text: str) -> int:
        return len(WORD.findall(text))


class tokenizer:  # noqa: N801
    """`lorebind.tokenizers`: acme."""

    Declaration = AcmeTokenizing

    @staticmethod
    def make(declaration: AcmeTokenizing, environment: Environment) -> AcmeCounter:
        return AcmeCounter()


class AcmeAudit(ExtensionBase):
    """Writes events to a file."""

    provider: Literal["acme"] = Field(description="Acme's audit.")
    file: str = Field(description="The file, relative to the project folder.")


class Audit(Extension):
    """Writes one line per search, without its text."""

    def __init__(self, path: str) -> None:
        self._path = path

    def retrieval_completed(self, event: Event) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{event.kb_id} {event.data['matches']}\n")


class extension:  # noqa: N801
    """`lorebind.extensions`: acme."""

    Declaration = AcmeAudit

    @staticmethod
    def make(declaration: AcmeAudit, environment: Environment) -> Audit:
        return Audit(str(environment.root / declaration.file))


class AcmeEngine:
    """An engine within one process, which keeps what nobody has taken yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[str]] = {}
        self._slots: Mapping[str, int] = {}

    def submit(self, key: str, ids: Sequence[str]) -> None:
        self._waiting.setdefault(key, []).extend(ids)

    def look_after(self, key: str) -> int:
        return self._slots.get(key, 0)

    async def serve(
        self,
        work: Callable[[str, str], Awaitable[object]],
        slots: Mapping[str, int],
        *,
        once: bool = False,
    ) -> None:
        self._slots = slots
        while True:
            for key in slots:
                while waiting := self._waiting.get(key):
                    await work(key, waiting.pop(0))
            if once:
                return
            await asyncio.sleep(0.1)

    def close(self) -> None:
        self._waiting.clear()


class engine:  # noqa: N801
    """`lorebind.engines`: acme."""

    @staticmethod
    def make(database: object) -> AcmeEngine:
        return AcmeEngine()


def titles(kb: str, project: str = ".") -> None:
    """Print the documents of a knowledge base."""
    from lorebind import Project

    with Project.load(project) as loaded:
        for document in loaded.documents(kb):
            print(document.uri)
