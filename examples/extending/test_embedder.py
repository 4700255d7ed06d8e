"""The embedder passes the tests that Lorebind's own embedders pass."""

import pytest
from acme_lore import AcmeEmbedder

from lorebind_knowledge.testing import EmbedderConformance


class TestEmbedder(EmbedderConformance):
    @pytest.fixture
    def make_embedder(self):
        return lambda: AcmeEmbedder(256, "a key")

    @pytest.fixture
    def secrets(self):
        return ["a key"]
