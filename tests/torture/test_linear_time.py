"""Functions that match texts of callers, documents or models take linear time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from .matchers import FUNCTIONS

UNITS = [
    *(
        "a",
        "aB",
        "é",
        "中",
        "\u0301",
        "\u200b",
        "0",
        "1-",
        "1, ",
        "a b ",
        "A. b ",
        "a_",
        "a,b\n",
        "a: b\n",
    ),
    *(
        " ",
        "\t",
        "\r",
        "\n",
        "\r\n",
        "\n \n",
        "a\n\n",
        "a\n-\n",
        "_",
        "~",
        "-",
        "=",
        ":",
        ";",
        "%",
        "@",
    ),
    *(
        ".",
        ". ",
        "…",
        "e. ",
        "e.g.",
        ".a",
        "/",
        "//",
        "**/",
        "\\",
        '\\"',
        '"',
        "'",
        "''' ",
        "a=b ",
        "task-",
    ),
    *(
        "[",
        "[1]",
        "[1](",
        "[1][",
        "[ ",
        "[a](",
        "[a](b ",
        "[a]: b\n",
        "![",
        "![](",
        "(",
        "((",
        "[|",
        "[INST",
    ),
    *(
        "{",
        "{a ",
        "{.a",
        "{{",
        "{{ ",
        "}}",
        "{{ .a }}",
        "$",
        "&",
        "&#",
        "&amp;",
        "!",
        "|",
        "|-",
        "| ",
    ),
    *(
        "`",
        "` ``",
        "```\n",
        "x```\n",
        "```json\n",
        "* ",
        "- a\n",
        "# ",
        "> ",
        "a,",
        "input ",
        "http://a ",
    ),
    *(
        "<",
        "</",
        "<|",
        "<!--",
        "<a ",
        "<b>",
        "<p>x",
        "<A ",
        "import a\n\n",
        "export {\n\n",
        "\\section{",
    ),
    *("<knowledge id=12345678>\n", "\n</knowledge id=12345678>", "http://a", "input.", "//a@"),
]
FRAMES = [("", ""), ("a|b\n", "x|")]
"""The text before the units and the text after them."""
SIZE = 30_000
QUICK = 0.05
"""Seconds within which even twice the text is fast enough to need no comparison."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_twice_the_text_takes_twice_the_time(name: str, pytestconfig: pytest.Config) -> None:
    """Doubling a text of repeated parts never takes three times as long."""
    if not pytestconfig.getoption("torture"):
        pytest.skip("it measures time; run with --torture")
    function = FUNCTIONS[name]
    slow = {
        (before, unit, after): ratio
        for unit in UNITS
        for before, after in FRAMES
        if (ratio := _ratio(function, before, unit, after)) > 3
    }
    assert not slow


def _ratio(function: Callable[[str], Any], before: str, unit: str, after: str) -> float:
    """Return how much longer twice the text takes: the least of two doublings, 0 if quick."""
    texts = [before + unit * (size // len(unit)) + after for size in (SIZE, 2 * SIZE, 4 * SIZE)]
    if (longer := _seconds(function, texts[1])) < QUICK:
        return 0.0
    for _ in range(5):  # another program may have delayed the measurement
        if (ratio := longer / _seconds(function, texts[0])) < 3:
            return ratio
        longer = min(longer, _seconds(function, texts[1]))
    return min(ratio, _seconds(function, texts[2]) / longer)


def _seconds(function: Callable[[str], Any], text: str) -> float:
    began = time.process_time()
    function(text)
    return time.process_time() - began
