"""The plugins pass the tests that Lorebind's own embedders and stores pass."""

import pytest
from acme_lore import AcmeEmbedder, AcmeStore

from lorebind_knowledge.testing import EmbedderConformance, VectorStoreConformance


class TestEmbedder(EmbedderConformance):
    @pytest.fixture
    def make_embedder(self):
        return lambda: AcmeEmbedder(256, "a key")

    @pytest.fixture
    def secrets(self):
        return ["a key"]


class TestStore(VectorStoreConformance):
    @pytest.fixture
    def store(self):
        return AcmeStore()
