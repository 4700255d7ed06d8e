"""What third parties say, without the secrets they were given."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, SecretStr

from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.embedders.langchain import LangChainEmbedder
from lorebind_knowledge.errors import EmbedderError
from lorebind_knowledge.redaction import said_by


class _Client(BaseModel):
    key: SecretStr = SecretStr("sk-1")
    empty: SecretStr = SecretStr("")
    plain: str = "plain"


def test_what_the_holder_keeps_is_hidden() -> None:
    """A secret of the object that failed is not repeated; the rest of its words are."""
    said = said_by(ValueError("Incorrect API key provided: sk-1 (plain)"), holder=_Client())
    assert said == "ValueError: Incorrect API key provided: [secret] (plain)"


def test_what_templates_gave_is_hidden() -> None:
    """What came out of a template is hidden at any depth; what stands in the file is not."""
    written = {"api_key": "{{ .env.A }}", "more": [{"token": "{{ .env.B }}"}], "mode": "e", "n": 3}
    resolved = {"api_key": "sk-2", "more": [{"token": "tk"}], "mode": "e", "n": 3}
    said = said_by(KeyError("sk-2 tk e 3"), written=written, resolved=resolved)
    assert said == "KeyError: '[secret] [secret] e 3'"


async def test_an_embedder_that_quotes_its_key() -> None:
    """The error of a LangChain embedder that failed holds its words, but not its key."""
    from langchain_core.embeddings import Embeddings

    class Quoting(Embeddings):
        def __init__(self) -> None:
            self.openai_api_key = SecretStr("sk-3")

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise PermissionError("refused: sk-3")

        def embed_query(self, text: str) -> list[float]:
            raise PermissionError("refused: sk-3")

    with pytest.raises(EmbedderError, match=r"PermissionError: refused: \[secret\]$"):
        await embed_query(LangChainEmbedder(Quoting()), "x")
