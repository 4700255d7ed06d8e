"""PyYAML's loader with libyaml inside, several times as fast, for texts that both read alike."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import Composer

_READ_DIFFERENTLY = re.compile(
    # Tabs, characters that are not printable, and what only YAML takes for the end of a line.
    "[^\n\r -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    # Directives, tags, `?` between brackets, and a comment that touches `|` or `>`.
    "|^%|[!?]|[|>][-+0-9]*#",
    re.MULTILINE,
)


def libyaml_loader(text: str) -> Any:
    """The loader's class; None if PyYAML has no libyaml, or they might read the text differently.

    What libyaml says of a text that is not valid, and where, is different in any case.
    """
    if not yaml.__with_libyaml__ or _READ_DIFFERENTLY.search(text):
        return None
    return _Loader


if yaml.__with_libyaml__:

    class _Loader(Composer, yaml.CSafeLoader):
        """libyaml's scanner and parser below PyYAML's composer.

        libyaml's own composer would end the process where nesting overflows the stack.
        """

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            Composer.__init__(self)
