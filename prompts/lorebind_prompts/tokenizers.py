"""The token counters that the YAML can declare, and how they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from lorebind_config.declarations.base import OUTSIDE
from lorebind_config.declarations.models import TokenizerBase
from lorebind_config.errors import PluginError
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_prompts.tokens import EstimateCounter, FileCounter, TiktokenCounter

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Wants
    from lorebind_config.templates import Environment
    from lorebind_prompts.tokens import TokenCounter


class EstimateTokenizer(TokenizerBase):
    """One token per four characters."""

    provider: Literal["estimate"] = Field(description="Estimates by the length of the text.")


class TiktokenTokenizer(TokenizerBase):
    """An encoding of OpenAI; needs no network."""

    provider: Literal["tiktoken"] = Field(description="Counts as OpenAI's models do.")
    encoding: Literal["o200k_base", "cl100k_base"] = Field(
        "o200k_base", description="The name of the encoding."
    )


class HuggingFaceTokenizer(TokenizerBase):
    """The tokenizer of any model that Hugging Face's `tokenizers` library can read."""

    templated: ClassVar[tuple[str, ...]] = ("path",)

    provider: Literal["huggingface"] = Field(description="Reads the model's own tokenizer.")
    path: str = Field(
        min_length=1, description="Path of the tokenizer.json, relative to the project folder."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "path", "read", OUTSIDE


class Tokenizer(NamedTuple):
    """A built-in tokenizer, as `lorebind_prompts` registers it."""

    Declaration: type[TokenizerBase]
    make: Callable[[Any, PartEnvironment], TokenCounter]


estimate = Tokenizer(EstimateTokenizer, lambda declaration, environment: EstimateCounter())
tiktoken = Tokenizer(
    TiktokenTokenizer, lambda declaration, environment: TiktokenCounter(declaration.encoding)
)
huggingface = Tokenizer(
    HuggingFaceTokenizer,
    lambda declaration, environment: FileCounter(
        environment.root / environment.fill(declaration.path)
    ),
)


def make_counter(declaration: TokenizerBase, environment: Environment) -> TokenCounter:
    """Make the declared token counter.

    Raises:
        PluginError: it cannot be made, or the plugin is broken.
    """
    part, members = PartEnvironment(environment), ("name", "exact", "count")
    counter: TokenCounter = make_part(
        "tokenizers", declaration, part, members, PluginError, _Checked
    )
    return counter


class _Checked:
    """Counts with a plugin's counter, and raises errors that name it if it fails."""

    def __init__(self, inner: TokenCounter, environment: PartEnvironment) -> None:
        self.name, self.exact = inner.name, inner.exact
        self._inner, self._environment = inner, environment

    def count(self, text: str) -> int:
        with self._environment.redact_errors(PluginError, f"the tokenizer {self.name} failed"):
            count: Any = self._inner.count(text)
        if not isinstance(count, int) or count < 0:
            raise PluginError(f"the tokenizer {self.name} counted {count!r}; expected a number")
        return count
