"""The conformance kit for stores whose vectors outlive the object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lorebind_knowledge.testing import VectorStoreConformance


class Reopened(VectorStoreConformance):
    """An inheriting class only defines the fixture `reopen`."""

    @pytest.fixture
    def store(self, reopen: Callable[[], Any]) -> Iterator[Any]:
        store = reopen()
        yield store
        store.close()
