"""The tokenizer `estimate`: estimates tokens by the length of the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lorebind_config.declarations.models import TokenizerBase
from lorebind_prompts.tokens import EstimateCounter

if TYPE_CHECKING:
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_prompts.tokens import TokenCounter


class EstimateTokenizer(TokenizerBase):
    """One token per four characters."""

    provider: Literal["estimate"] = Field(description="Estimates by the length of the text.")


Declaration = EstimateTokenizer


def make(declaration: EstimateTokenizer, environment: PartEnvironment) -> TokenCounter:
    return EstimateCounter()
