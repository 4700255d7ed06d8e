"""The check of words: it reads pages, docstrings, comments and messages, and only these."""

from __future__ import annotations

from pathlib import Path

from scripts.plain_english import filler_share, findings

CODE = '''"""Answers
whoever calls."""
value = f(  # built anew
    "It is built anew.",
)
anew = whoever
'''
PAGE = """# Title

Two lines that say what
whoever reads them.

```text
built anew
```

- `anew` is code
- What is dead is swept.
- What is a score?
| a | built anew |
"""


def _phrases(name: str, text: str) -> list[tuple[int, str]]:
    return sorted((line, phrase) for line, phrase, _ in findings(Path(name), text))


def test_code_is_read_for_its_words() -> None:
    """Names are not words; the strings of tests are data."""
    assert _phrases("app/a.py", CODE) == [(1, "whoever"), (3, "anew"), (4, "anew")]
    assert _phrases("tests/a.py", CODE) == [(1, "whoever"), (3, "anew")]


def test_pages_are_read_without_their_code() -> None:
    """A phrase may span lines; a clause as subject is found, a question is not."""
    assert _phrases("docs/a.md", PAGE) == [
        (3, "whoever"),
        (11, "What is dead is swept."),
        (13, "anew"),
    ]


def test_the_advice_says_what_to_write() -> None:
    ((_, _, advice),) = findings(Path("a.md"), "Built anew.")
    assert advice == "again"


def test_names_that_do_not_say_of_what() -> None:
    """Each place that gives a name counts: a variable, an attribute, a parameter, a function."""
    text = "def find(given, key):\n    found, self.page = given[key], [one for one in key]\n"
    assert filler_share([text]) == 100 * 3 / 6
    assert filler_share(["pass"]) == 0
