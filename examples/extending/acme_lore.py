"""A package of plugins: an embedder, a chunker, a reranker and a source, each in a few lines."""

import json
import re
import zlib
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
from pydantic import Field

from lorebind.plugin import (
    Chunker,
    ChunkerBase,
    Content,
    Embedder,
    EmbedderBase,
    Fingerprint,
    Reranker,
    RerankerBase,
    Secret,
    SourceBase,
    SourceItem,
)


class AcmeEmbedder(Embedder):
    """Counts groups of three letters, which needs no model."""

    batch_size = 64

    def __init__(self, dimension, api_key=None):
        self.dimension, self._api_key = dimension, api_key

    @property
    def fingerprint(self):
        return Fingerprint("acme", "threes", revision="1", dimension=self.dimension)

    def embed_documents(self, texts):
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            padded = f"  {text.lower()} "
            for at in range(len(padded) - 2):
                vectors[row, zlib.crc32(padded[at : at + 3].encode()) % self.dimension] += 1
        return vectors

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class EmbedderPlugin:
    class Declaration(EmbedderBase):
        """Acme's embeddings."""

        templated = ("api_key",)

        provider: Literal["acme"] = Field(description="Calls Acme.")
        dimension: int = Field(256, ge=8, le=4096, description="Length of the vectors.")
        api_key: Secret | None = Field(None, description="Sent with every call.")

    @staticmethod
    def make(declaration, environment):
        return AcmeEmbedder(declaration.dimension, environment.fill(declaration.api_key))


class AcmeChunker(Chunker):
    """Splits texts so that each question with its answer is a passage."""

    def __init__(self, mark):
        self.mark = re.compile(rf"^{re.escape(mark)}", re.MULTILINE)

    @property
    def fingerprint(self):
        return f"from {self.mark.pattern}"

    def split(self, text, start, end, boundaries=()):
        cuts = [mark.start() for mark in self.mark.finditer(text, start, end)]
        ends = sorted({start, *cuts, end})
        return [part for part in pairwise(ends) if text[slice(*part)].strip()]


class ChunkerPlugin:
    class Declaration(ChunkerBase):
        """Splits before each question."""

        strategy: Literal["questions"] = Field(description="For questions with answers.")
        mark: str = Field("Q:", min_length=1, description="The beginning of each question.")

    @staticmethod
    def make(declaration, environment):
        return AcmeChunker(declaration.mark)


class AcmeReranker(Reranker):
    """Counts how many words of the question a passage contains."""

    def rerank(self, question, texts):
        words = set(question.lower().split())
        return [len(words & set(text.lower().split())) / len(words) for text in texts]


class RerankerPlugin:
    class Declaration(RerankerBase):
        """Acme's reranker."""

        provider: Literal["acme"] = Field(description="Counts words.")

    @staticmethod
    def make(declaration, environment):
        return AcmeReranker()


class AcmeWiki:
    """A JSON file whose entries are documents: the pages of a wiki."""

    def __init__(self, key, path):
        self.key, self.path = key, path

    def items(self):
        for title, text in json.loads(self.path.read_text()).items():
            yield SourceItem(f"{title}.md", partial(self._read, text))

    def _read(self, text, version):
        return Content(text.encode(), "text/markdown")


class SourcePlugin:
    class Declaration(SourceBase):
        """A wiki of Acme."""

        templated = ("file",)

        type: Literal["acme_wiki"] = Field(description="Pages of a wiki.")
        file: str = Field(description="The file, relative to the project folder.")

    @staticmethod
    def make(declaration, environment):
        file = environment.fill(declaration.file)
        return AcmeWiki(file, environment.root / file)
