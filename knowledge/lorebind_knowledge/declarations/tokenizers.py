"""`tokenizer:` who counts the tokens of a model, where its name does not tell."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.plugging import Open


class TokenizerBase(Declaration):
    """What all tokenizers declare, those of plugins too."""

    label: ClassVar[str] = "tokenizer"
    kind_key: ClassVar[str] = "provider"


class TiktokenTokenizer(TokenizerBase):
    """An encoding of OpenAI, which needs no network."""

    provider: Literal["tiktoken"] = Field(description="Counts as OpenAI's models do.")
    encoding: Literal["o200k_base", "cl100k_base"] = Field(
        "o200k_base", description="The name of the encoding."
    )


class HuggingFaceTokenizer(TokenizerBase):
    """The tokenizer of any model that Hugging Face's `tokenizers` knows."""

    templated: ClassVar[tuple[str, ...]] = ("path",)

    provider: Literal["huggingface"] = Field(description="Reads the model's own tokenizer.")
    path: str = Field(
        min_length=1, description="The model's tokenizer.json; relative to the project folder."
    )


class EstimateTokenizer(TokenizerBase):
    """A token for every four characters."""

    provider: Literal["estimate"] = Field(description="Estimates by the length of the text.")


_BuiltIn: TypeAlias = TiktokenTokenizer | HuggingFaceTokenizer | EstimateTokenizer
TokenizerDeclaration: TypeAlias = Annotated[
    _BuiltIn, Field(discriminator="provider"), Open("tokenizers", TokenizerBase, _BuiltIn)
]
"""One of the tokenizers, chosen by `provider`: one of these or a plugin's."""
