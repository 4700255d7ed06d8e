"""Find words that are not plain English: `python -m scripts.plain_english`, part of `make check`.

Pages are read without their blocks of code. Python files are read for docstrings, comments and
sentences in strings; tests without their strings, which are data.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (
    *("app", "bindings", "prompts", "knowledge", "config"),
    *("scripts", "benchmarks", "tests", "examples"),
)
NOT_OURS = ("examples/quickstart/docs/", "tests/knowledge/pages/", "scripts/plain_english.py")

ADVICE = {
    r"\banew\b": "again",
    r"\bin passing\b": "transient failure",
    r"\bway out\b": "suggested fix",
    r"\bin (?:both|two) colou?rs\b": "sync and async",
    r"\b(?:asynchronous|blocking|async|sync) twins?\b": "async version",
    r"\briddles?\b": "say what is unclear",
    r"\bleft out\b|\bleaves? out\b": "omitted",
    r"\bhears? of\b|\b(?:is|are) told of\b": "receives, is notified of",
    r"\blet know\b": "tell",
    r"\bwhoever\b|\bwhosoever\b": "name the person: callers that …",
    r"\bg(?:o|oes|oing|one) on with\b": "resume, continue",
    r"\b(?:not|no|nothing|never|nobody|none) [^.;:]{0,60}\bany more\b": "no longer",
    r"\bsays? the repair\b": "names the command that repairs it",
    r"\bso many\b": "name the number",
    r"\bcomes? of (?:it|this|that)\b": "results from",
    r"\bwherefrom\b|\bwhence\b|\bthereby\b|\bthereof\b|\bhereby\b": "say it in today's words",
    r"\bto cut documents\b": "chunking strategies",
    r"\bwho (?:asks|waits|stops|calls|reads|writes)\b": "callers that …",
}
"""Each phrase, and what to write instead."""

FILLERS = {
    *("one", "found", "given", "said", "made", "asked"),
    *("told", "shown", "kept", "wanted", "own", "known"),
}
"""Names that do not say of what."""
MOST_FILLERS = 0.1
"""Largest share of them among the names that the code gives, in percent. It only falls."""

_INVERTED = re.compile(
    r"(?:^|(?<=[.!] ))(?:What|Who|Of (?:each|all|the|several|two)|Whichever)\b[^.?!]*[.:;](?=$|\s)"
)
"""A sentence that begins with a clause in place of its subject, and is no question."""


def main() -> int:
    """Print each finding with its location, and return 1 if there is one."""
    found = 0
    for path in _files():
        name = path.relative_to(ROOT)
        for line, phrase, advice in findings(name, path.read_text(encoding="utf-8")):
            print(f"{name}:{line}: {phrase!r}; expected plain English: {advice}")
            found += 1
    share = filler_share(
        path.read_text(encoding="utf-8") for path in _files() if path.suffix == ".py"
    )
    if share > MOST_FILLERS:
        print(
            f"{share:.2f} % of all names are fillers such as 'one' and 'found'; expected at most "
            f"{MOST_FILLERS} %: names that say of what"
        )
    return found > 0 or share > MOST_FILLERS


def filler_share(texts: Iterable[str]) -> float:
    """Return the percentage of `FILLERS` among the names of variables, parameters and functions."""
    names = [name.strip("_") for text in texts for name in _names(ast.parse(text))]
    return 100 * sum(name in FILLERS for name in names) / max(1, len(names))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def findings(name: Path, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each finding in a file: its line, the phrase, and what to write instead.

    Args:
        name: the path below the project's folder.
        text: the content of the file.
    """
    for line, words in _words(name, text):
        for phrase, advice in _phrases(words):
            yield line, phrase, advice


def _files() -> Iterator[Path]:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    code = [path for name in FOLDERS for path in (ROOT / name).rglob("*.py")]
    for path in sorted([*pages, *code]):
        if not str(path.relative_to(ROOT)).startswith(NOT_OURS):
            yield path


def _words(name: Path, text: str) -> Iterator[tuple[int, str]]:
    if name.suffix == ".md":
        return _words_of_page(text)
    return _words_of_code(text, strings=name.parts[0] != "tests")


def _words_of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs, list items and table cells, with the number of their first line."""
    start, lines = 1, list[str]()
    in_code = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        ends = in_code or not line.strip() or re.match(r"\s*(?:```|[-*|#>]|\d+\. )", line)
        if ends and lines:
            yield start, " ".join(lines)
            lines = []
        if line.strip() and not in_code and not line.lstrip().startswith("```"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if line.lstrip().startswith("|"):
                yield from ((number, cell) for cell in cells)
                continue
            if not lines:
                start = number
            lines.append(re.sub(r"^\s*(?:[-*#>]+|\d+\.) ", "", line).strip())


def _words_of_code(text: str, *, strings: bool) -> Iterator[tuple[int, str]]:
    """Yield docstrings, comments and, on request, all other strings with a space."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant if strings else ast.Expr):
            said = getattr(node.value, "value", node.value)
            if isinstance(said, str) and " " in said:
                yield from _paragraphs(node.lineno, said)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _paragraphs(start: int, text: str) -> Iterator[tuple[int, str]]:
    line = start
    for part in text.split("\n\n"):
        yield line, " ".join(part.split())
        line += part.count("\n") + 2


def _phrases(text: str) -> Iterator[tuple[str, str]]:
    plain = re.sub(r"`[^`]*`", "`…`", text)
    for pattern, advice in ADVICE.items():
        for found in re.finditer(pattern, plain, re.IGNORECASE):
            yield found[0], advice
    for found in _INVERTED.finditer(plain):
        yield found[0][:60], "begin with the subject: the documents that …"


if __name__ == "__main__":
    sys.exit(main())
