"""The tokenizer `tiktoken`: OpenAI's encodings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lorebind_config.declarations.models import TokenizerBase
from lorebind_prompts.tokens import TiktokenCounter

if TYPE_CHECKING:
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_prompts.tokens import TokenCounter


class TiktokenTokenizer(TokenizerBase):
    """An encoding of OpenAI; needs no network."""

    provider: Literal["tiktoken"] = Field(description="Counts as OpenAI's models do.")
    encoding: Literal["o200k_base", "cl100k_base"] = Field(
        "o200k_base", description="The name of the encoding."
    )


Declaration = TiktokenTokenizer


def make(declaration: TiktokenTokenizer, environment: PartEnvironment) -> TokenCounter:
    return TiktokenCounter(declaration.encoding)
