"""Functions that match texts of callers, documents or models take linear time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from lorebind_knowledge.errors import did_you_mean
from lorebind_knowledge.filters import compile_filter
from lorebind_prompts import check
from lorebind_prompts.citations import escape_markers
from lorebind_prompts.cleaning import clean_line, clean_text
from lorebind_prompts.quoting import choose
from lorebind_prompts.rendering.base import Passage
from lorebind_prompts.rendering.reading import parse, without_blocks
from lorebind_prompts.units import split_units

if TYPE_CHECKING:
    from collections.abc import Callable

FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "check": lambda text: check(text, []),
    "escape_markers": escape_markers,
    "clean_text": clean_text,
    "clean_line": clean_line,
    "choose, question": lambda text: choose(text, [Passage("[1]", "a", "The hours are long.")]),
    "choose, passage": lambda text: choose("What hours?", [Passage("[1]", "a", text)]),
    "split_units": split_units,
    "parse": parse,
    "without_blocks": without_blocks,
    "did_you_mean": lambda text: did_you_mean(text, ["handbook", "returns"]),
    "compile_filter": lambda text: compile_filter({"a": {"$in": list(text)}})({"a": list(text)}),
}
UNITS = [
    *(
        "a",
        "a b ",
        "A. b ",
        "a_",
        "aB",
        "[1]",
        "[1](",
        "[1][",
        "[ ",
        "\\",
        "`",
        "` ``",
        "```\n",
        "<",
        "</",
    ),
    *("{", "{.a", "|", "| ", "!", "![", "![](", "<!--", "* ", "- a\n", "# ", " ", "\t", "\n", "> "),
    *(
        ". ",
        ".",
        "…",
        "e.g.",
        "e. ",
        '"',
        "(",
        "((",
        "[a](",
        "[a](b ",
        "<|",
        "[|",
        "[INST",
        "\u200b",
    ),
    *("<knowledge id=12345678>\n", "\n</knowledge id=12345678>", "1", "1-", "1, ", "=", "_", "~"),
]
SIZE = 30_000
QUICK = 0.05
"""Seconds within which even twice the text is fast enough to need no comparison."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_twice_the_text_takes_twice_the_time(name: str, pytestconfig: pytest.Config) -> None:
    """Doubling a text of repeated parts never takes three times as long."""
    if not pytestconfig.getoption("torture"):
        pytest.skip("it measures time; run with --torture")
    function = FUNCTIONS[name]
    slow = {unit: ratio for unit in UNITS if (ratio := _ratio(function, unit)) > 3}
    assert not slow


def _ratio(function: Callable[[str], Any], unit: str) -> float:
    """Return how much longer a text of twice the length takes; 0 if both are quick."""
    once, twice = (unit * (size // len(unit)) for size in (SIZE, 2 * SIZE))
    if (longer := _seconds(function, twice)) < QUICK:
        return 0.0
    for _ in range(3):  # another program may have delayed the measurement
        if (ratio := longer / _seconds(function, once)) < 3:
            break
        longer = min(longer, _seconds(function, twice))
    return ratio


def _seconds(function: Callable[[str], Any], text: str) -> float:
    began = time.process_time()
    function(text)
    return time.process_time() - began
