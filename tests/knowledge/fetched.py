"""Results of the fetcher."""

from __future__ import annotations

from typing import Any

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.sources.base import Content
from lorebind_knowledge.sources.web.fetcher import Fetcher

HERE = ("127.0.0.1",)


async def content(fetcher: Fetcher, address: str, version: str = "") -> Content:
    answer = await fetcher.fetch(address, version)
    assert answer is not None
    return answer


async def refusal(fetcher: Fetcher, address: str, **more: Any) -> str:
    """Return the message of the error."""
    with pytest.raises(SourceError) as caught:
        await fetcher.fetch(address, **more)
    return str(caught.value)
