"""A third-party class that stores vectors in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from langchain_core.vectorstores import InMemoryVectorStore


class KeptInMemory(InMemoryVectorStore):
    """Writes the file after every change."""

    def __init__(self, embedding: Any, path: str) -> None:
        super().__init__(embedding)
        self.path = Path(path)
        if self.path.exists():
            self.store = json.loads(self.path.read_text())

    def add_documents(self, documents: Any, ids: Any = None, **kwargs: Any) -> list[str]:
        added = super().add_documents(documents, ids, **kwargs)
        self.path.write_text(json.dumps(self.store))
        return added

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        super().delete(ids, **kwargs)
        self.path.write_text(json.dumps(self.store))
