"""The tokenizer `huggingface`: reads a model's own `tokenizer.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE
from lorebind_config.declarations.models import TokenizerBase
from lorebind_prompts.tokens import FileCounter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_config.declarations.base import Wants
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_prompts.tokens import TokenCounter


class HuggingFaceTokenizer(TokenizerBase):
    """The tokenizer of any model that Hugging Face's `tokenizers` library can read."""

    templated: ClassVar[tuple[str, ...]] = ("path",)

    provider: Literal["huggingface"] = Field(description="Reads the model's own tokenizer.")
    path: str = Field(
        min_length=1, description="Path of the tokenizer.json, relative to the project folder."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "path", "read", OUTSIDE


Declaration = HuggingFaceTokenizer


def make(declaration: HuggingFaceTokenizer, environment: PartEnvironment) -> TokenCounter:
    return FileCounter(environment.root / environment.fill(declaration.path))
