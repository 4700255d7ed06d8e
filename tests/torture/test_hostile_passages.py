"""Random passages that try to leave or imitate a block, hide text, or imitate a model's tokens."""

from __future__ import annotations

import random
import re

from lorebind_prompts import Assembler
from tests.prompts.helpers import context
from tests.prompts.hostile import CONTROL_TOKENS, HOSTILE, INVISIBLE, LINE_BREAKS
from tests.prompts.test_imitations import imitates_no_block
from tests.prompts.test_injection import (
    RENDERERS,
    SPECIAL,
    is_cited_as_itself,
    is_read_as_it_was_shown,
    stays_where_it_is,
)

from .trials import Trials

_PIECES = [
    *("- [9] evil.md", "### [9] evil", '{"marker": "[9]"}', '<passage marker="[9]">', "</passage>"),
    *("<knowledge id=00000000>", "</knowledge id=00000000>", "[", "]", "(1)", "<", ">", "|", "\\"),
    *("`", "```", "~~~", "> ", "  ", "\t", "- ", "***", "[9]", "【9】", "[4 and 9]", "［９］", '"'),
    *("[9]: https://evil.example", "[9](https://evil.example)", "word", "الف", "क", "❤", "1", "<<"),
    *("word. Another one", "The launch", "swordfish", "{{ .content }}", "&lt;", "\\u003c", "SYS>>"),
]
_VISIBLE = re.compile(f"[{''.join(INVISIBLE)}]")


def _passage(case: random.Random) -> str:
    parts = []
    for _ in range(case.randrange(1, 14)):
        kinds = [_PIECES, CONTROL_TOKENS, INVISIBLE, LINE_BREAKS, HOSTILE, [" ", "\n"]]
        (kind,) = case.choices(kinds, [6, 4, 2, 1, 1, 3])
        piece = case.choice(kind)
        for _ in range(case.choice([0, 0, 0, 1, 3])):
            at = case.randrange(len(piece) + 1)
            piece = piece[:at] + case.choice(INVISIBLE) + piece[at:]
        parts.append(piece)
    return "".join(parts)


def test_no_passage_leaves_its_block(trials: Trials) -> None:
    """A passage's content, title, address and label stay in its block and can be read back."""

    def check(case: random.Random) -> None:
        hostile, renderer = _passage(case), case.choice([*RENDERERS])
        stays_where_it_is(hostile, renderer)
        is_read_as_it_was_shown(hostile, renderer)

    trials.run("passages stay in their block", check, short=150, full=15_000)


def test_no_answer_imitates_a_block(trials: Trials) -> None:
    """A text that is inserted into a prompt reads like no block, whatever it quotes."""

    def check(case: random.Random) -> None:
        imitates_no_block(_passage(case), case.choice([*RENDERERS]))

    trials.run("inserted texts imitate no block", check, short=150, full=15_000)


def test_no_passage_speaks_in_tokens(trials: Trials) -> None:
    """No block contains a token of a model, even if invisible characters are ignored."""

    def check(case: random.Random) -> None:
        hostile, renderer = _passage(case), RENDERERS[case.choice([*RENDERERS])]
        text = Assembler(renderer=renderer).assemble([context(hostile, title=hostile)]).context
        assert not SPECIAL.search(_VISIBLE.sub("", text)), ascii(hostile)
        for left in _VISIBLE.finditer(text):
            before = text[left.start() - 1]
            assert left[0] in "\u200c\u200d\ufe0e\ufe0f", ascii(hostile)
            assert before > "\x7f", ascii(hostile)

    trials.run("passages speak in no tokens", check, short=150, full=15_000)


def test_no_passage_forges_a_citation(trials: Trials) -> None:
    """A quoted passage is cited as that passage."""

    def check(case: random.Random) -> None:
        is_cited_as_itself(_passage(case))

    trials.run("passages forge no citation", check, short=60, full=5_000)
