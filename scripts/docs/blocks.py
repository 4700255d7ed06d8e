"""Blocks of pages that are generated, between `<!-- generated: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable

from scripts.docs import layers

BLOCKS: dict[str, Callable[[], str]] = {
    "layers": layers.layers_block,
    "ladder": layers.ladder_block,
}
"""The function that returns the text of each block."""
PAGES = ("CONTRIBUTING.md", "docs/contributing/architecture.md")
"""The pages that hold such blocks."""

_BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_blocks(page: str) -> str:
    """Return the text of a page with each of its generated blocks as it is now.

    Raises:
        KeyError: a marker names a block that nothing generates.
    """
    return _BLOCK.sub(lambda block: f"{block[1]}\n{BLOCKS[block[2]]()}\n\n{block[3]}", page)
