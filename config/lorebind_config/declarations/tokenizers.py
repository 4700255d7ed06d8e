"""`tokenizer:` how tokens are counted for a model whose name does not determine it."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.places import Place


class TokenizerBase(Declaration):
    """The base of all tokenizer declarations, including those of plugins."""

    label: ClassVar[str] = "tokenizer"
    kind_key: ClassVar[str] = "provider"


TokenizerDeclaration: TypeAlias = Annotated[
    TokenizerBase,
    Place("tokenizers", TokenizerBase),
]
"""A tokenizer, selected by `provider`: built in or from a plugin."""
