"""Markers in answers: each is recognized or reported, in any spelling and however it is split."""

from __future__ import annotations

import random
from pathlib import Path

from lorebind_prompts import check
from tests.app.shop import QUESTION, shop
from tests.app.test_generating import Parts

from .trials import Trials

_OPEN = ["[{}]", "[ {} ]", "【{}】", "［{}］", "【{}†source】", "【{}:3†a.md】", "[{}†L1-L5]"]
_JOINTS = [", ", ",", "; ", " & ", " and ", ", and ", " or ", "、", "，"]
_DIGITS = ["0123456789", "０１２３４５６７８９", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗"]
_BEFORE = ["days", "x", "使用", "(so)", "_", "9", ")", '"', "é", " ", "", "\\\\", "*", "][", "]"]
_NONE = ["`{}`", "``x ` {}``", "```\n{}\n```", "~~~py\nx{}\n~~~", "\\{}", "{}(https://a.b/c)"]


def _written(case: random.Random, number: int) -> str:
    digits = case.choice(_DIGITS)
    zeros = "0" * case.choice([0, 0, 0, 1, 2])
    return "".join(digits[int(digit)] for digit in zeros + str(number))


def _marker(case: random.Random) -> tuple[str, list[int]]:
    numbers, texts = [], []
    for _ in range(case.choice([1, 1, 1, 2, 3])):
        first = case.choice([0, 1, 2, 3, 4, case.randrange(3000), case.randrange(10**12)])
        texts.append(_written(case, first))
        numbers.append(first)
        if first < 10**6 and case.random() < 0.2:
            last = first + case.randrange(1, 4)
            texts[-1] += case.choice(["-", " - ", "–", "—"]) + _written(case, last)
            numbers += range(first + 1, last + 1)
    joined = texts[0] + "".join(case.choice(_JOINTS) + text for text in texts[1:])
    return case.choice(_OPEN).format(joined), numbers


def _answer(case: random.Random) -> tuple[str, set[str]]:
    """Return an answer, and the markers that must be recognized or reported."""
    parts, expected = [], set()
    for _ in range(case.randrange(1, 9)):
        marker, numbers = _marker(case)
        if case.random() < 0.3:
            parts.append(f"\n\n{case.choice(_NONE).format(marker)}\n\n")
        else:
            expected |= {f"[{number}]" for number in numbers}
            parts.append(f"word {case.choice(_BEFORE)}{marker}{case.choice(['.', ' so', 'x', ''])}")
            parts.append(case.choice([" ", "\n", "\n\n", "\n> ", "\n- ", " ` lone\n\n"]))
    return "".join(parts), expected


def _cut(case: random.Random, text: str) -> list[str]:
    places = sorted(case.choices(range(len(text) + 1), k=case.randrange(12)))
    return [text[start:end] for start, end in zip([0, *places], [*places, None], strict=True)]


def test_every_marker_is_known_or_reported(trials: Trials) -> None:
    """All markers are found, except in code, escapes and links."""

    def check_answer(case: random.Random) -> None:
        text, expected = _answer(case)
        assert set(check(text, []).unknown) == expected, text

    trials.run("markers are known or reported", check_answer, short=300, full=40_000)


def test_a_stream_is_cut_anywhere(trials: Trials, tmp_path: Path) -> None:
    """A streamed answer has the same citations and unknown markers as the whole answer."""
    with shop(tmp_path) as project:

        def check_stream(case: random.Random) -> None:
            text, expected = _answer(case)
            stream = project.stream(QUESTION, model=Parts(says=_cut(case, text)))
            assert "".join(stream) == text
            streamed = stream.answer
            whole = check(text, streamed.offered)
            assert streamed.text == text
            assert streamed.citations == whole.citations
            assert streamed.unknown_markers == whole.unknown
            cited = {citation.marker for citation in streamed.citations}
            assert cited | set(streamed.unknown_markers) == expected
            assert cited == expected & {offer.marker for offer in streamed.offered}

        trials.run("streams are cut anywhere", check_stream, short=15, full=1500)
