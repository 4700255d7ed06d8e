"""`chunking:` how documents are cut into passages."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.places import Place


class ChunkerBase(Declaration):
    """What all ways of cutting documents share, those of plugins too."""

    label: ClassVar[str] = "chunking"
    kind_key: ClassVar[str] = "strategy"


_STRATEGIES = (
    *("recursive_text_splitter", "token", "fixed", "markdown", "html", "json", "code", "semantic"),
)
AnyChunking: TypeAlias = Annotated[
    ChunkerBase,
    Place(
        "chunkers",
        ChunkerBase,
        dict.fromkeys(_STRATEGIES, "lorebind_knowledge.chunking.strategies"),
        default="recursive_text_splitter",
    ),
]
"""How documents are cut, chosen by `strategy`: one of these or a plugin's."""
