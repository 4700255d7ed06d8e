"""`chunking:` how documents are split into chunks."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.places import Place


class ChunkerBase(Declaration):
    """The base of all chunking strategies, including those of plugins."""

    label: ClassVar[str] = "chunking"
    kind_key: ClassVar[str] = "strategy"

    @property
    def exceeds_default(self) -> bool:
        """Whether chunks can be larger than those of the default size."""
        return False


AnyChunking: TypeAlias = Annotated[
    ChunkerBase,
    Place("chunkers", ChunkerBase, default="recursive_text_splitter"),
]
"""A chunking strategy, selected by `strategy`: built in or from a plugin."""
