"""From a declared tokenizer to the counter of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.configuration.plugged import PluginEnvironment, make_plugged
from lorebind_knowledge.declarations.tokenizers import (
    EstimateTokenizer,
    HuggingFaceTokenizer,
    TiktokenTokenizer,
)
from lorebind_knowledge.errors import PluginError
from lorebind_prompts.tokens import EstimateCounter, FileCounter, TiktokenCounter

if TYPE_CHECKING:
    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations.tokenizers import TokenizerBase
    from lorebind_prompts.tokens import TokenCounter


def make_counter(declaration: TokenizerBase, environment: Environment) -> TokenCounter:
    """The counter that a declaration names.

    Raises:
        PluginError: it cannot be made, or the plugin is broken.
    """
    match declaration:
        case TiktokenTokenizer(encoding=encoding):
            return TiktokenCounter(encoding)
        case HuggingFaceTokenizer(path=path):
            return FileCounter(environment.root / environment.fill(path))
        case EstimateTokenizer():
            return EstimateCounter()
    confided = PluginEnvironment(environment)
    members = ("name", "exact", "count")
    made = make_plugged("tokenizers", declaration, confided, members, PluginError)
    return _Checked(made, confided)


class _Checked:
    """Counts as a plugin does, and says whose failure it is when it does not count."""

    def __init__(self, inner: TokenCounter, environment: PluginEnvironment) -> None:
        self.name, self.exact = inner.name, inner.exact
        self._inner, self._environment = inner, environment

    def count(self, text: str) -> int:
        counted: Any
        try:
            counted = self._inner.count(text)
        except Exception as error:  # any plugin's own exceptions
            said = self._environment.say(error)
            raise PluginError(f"the tokenizer {self.name} failed: {said}") from error
        if not isinstance(counted, int) or counted < 0:
            raise PluginError(f"the tokenizer {self.name} counted {counted!r}; expected a number")
        return counted
