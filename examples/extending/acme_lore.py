"""A package of plugins: an embedder, a vector database and a source, each in a few lines."""

import json
import zlib
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from lorebind_knowledge.declarations.embedders import EmbedderBase
from lorebind_knowledge.declarations.secrets import Secret
from lorebind_knowledge.declarations.sources import SourceBase
from lorebind_knowledge.declarations.vector_dbs import VectorDBBase
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.stores.memory import MemoryStore


class AcmeEmbedder(Embedder):
    """Counts letters in threes, which takes no model."""

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


class AcmeStore(MemoryStore):
    """A store of one's own implements `VectorStore`; this one borrows it all."""

    persistent = False


class VectorDBPlugin:
    class Declaration(VectorDBBase):
        """Acme's vector database."""

        type: Literal["acme"] = Field(description="Kept at Acme's.")

    @staticmethod
    def make(declaration, environment):
        return AcmeStore()


class AcmeWiki:
    """Each page of a wiki, which is a file of JSON, is a document."""

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
