"""`tokenizer:` who counts the tokens of a model, where its name does not tell."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.places import Place


class TokenizerBase(Declaration):
    """What all tokenizers declare, those of plugins too."""

    label: ClassVar[str] = "tokenizer"
    kind_key: ClassVar[str] = "provider"


TokenizerDeclaration: TypeAlias = Annotated[
    TokenizerBase,
    Place(
        "tokenizers",
        TokenizerBase,
        {
            "tiktoken": "lorebind_prompts.tokenizers.tiktoken",
            "huggingface": "lorebind_prompts.tokenizers.huggingface",
            "estimate": "lorebind_prompts.tokenizers.estimate",
        },
    ),
]
"""One of the tokenizers, chosen by `provider`: one of these or a plugin's."""
