"""Make a token counter from its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_config.errors import PluginError
from lorebind_config.reading.make_part import PartEnvironment, make_part

if TYPE_CHECKING:
    from lorebind_config.declarations.models import TokenizerBase
    from lorebind_config.templates import Environment
    from lorebind_prompts.tokens import TokenCounter


def make_counter(declaration: TokenizerBase, environment: Environment) -> TokenCounter:
    """Make the declared token counter.

    Raises:
        PluginError: it cannot be made, or the plugin is broken.
    """
    own, members = PartEnvironment(environment), ("name", "exact", "count")
    made: TokenCounter = make_part("tokenizers", declaration, own, members, PluginError, _Checked)
    return made


class _Checked:
    """Counts with a plugin's counter, and raises errors that name it if it fails."""

    def __init__(self, inner: TokenCounter, environment: PartEnvironment) -> None:
        self.name, self.exact = inner.name, inner.exact
        self._inner, self._environment = inner, environment

    def count(self, text: str) -> int:
        with self._environment.redact_errors(PluginError, f"the tokenizer {self.name} failed"):
            counted: Any = self._inner.count(text)
        if not isinstance(counted, int) or counted < 0:
            raise PluginError(f"the tokenizer {self.name} counted {counted!r}; expected a number")
        return counted
