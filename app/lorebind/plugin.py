"""All that a plugin needs: protocols, bases of declarations, errors, and `register`.

```python
from lorebind.plugin import Embedder, EmbedderBase, Fingerprint
```
"""

from lorebind_config.declarations.base import Declaration, Settings
from lorebind_config.declarations.embedders import EmbedderBase, SparseEmbedderBase
from lorebind_config.declarations.knowledge_bases import ChunkerBase, DocumentTransformBase
from lorebind_config.declarations.models import TokenizerBase
from lorebind_config.declarations.retrieval import RerankerBase
from lorebind_config.declarations.sources import SourceBase
from lorebind_config.declarations.values import Secret
from lorebind_config.declarations.vector_dbs import VectorDBBase
from lorebind_config.declarations.wrappers import ExtensionBase
from lorebind_config.errors import (
    EmbedderError,
    LorebindError,
    MissingDependencyError,
    RerankerError,
    SourceError,
    StoreError,
    UsageError,
)
from lorebind_config.plugins import register, unregister
from lorebind_knowledge.chunking.base import Chunker, Interval
from lorebind_knowledge.embedders.base import Embedder, Fingerprint
from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
from lorebind_knowledge.events import Event, Extension
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.middleware import Wrapper
from lorebind_knowledge.records import QueryResult, SparseVector
from lorebind_knowledge.rerankers.base import Reranker
from lorebind_knowledge.scale.engine import Engine
from lorebind_knowledge.sources.base import Content, Source, SourceItem
from lorebind_knowledge.stores.base import SearchHits, VectorStore
from lorebind_knowledge.stores.wrapper import StoreWrapper
from lorebind_knowledge.transforms.steps import DocumentTransform
from lorebind_prompts.tokens import TokenCounter

__all__ = [
    "Chunker",
    "ChunkerBase",
    "Content",
    "Declaration",
    "DocumentTransform",
    "DocumentTransformBase",
    "Embedder",
    "EmbedderBase",
    "EmbedderError",
    "Engine",
    "Event",
    "Extension",
    "ExtensionBase",
    "Fingerprint",
    "Interval",
    "LoadedDocument",
    "LorebindError",
    "MissingDependencyError",
    "QueryResult",
    "Reranker",
    "RerankerBase",
    "RerankerError",
    "SearchHits",
    "Secret",
    "Settings",
    "Source",
    "SourceBase",
    "SourceError",
    "SourceItem",
    "SparseEmbedder",
    "SparseEmbedderBase",
    "SparseVector",
    "StoreError",
    "StoreWrapper",
    "TokenCounter",
    "TokenizerBase",
    "UsageError",
    "VectorDBBase",
    "VectorStore",
    "Wrapper",
    "register",
    "unregister",
]
