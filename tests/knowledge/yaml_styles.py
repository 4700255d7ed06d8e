"""Generates projects with the same resources in many styles of YAML, as people write them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

SECTIONS = ("embedders", "vector_dbs", "knowledge_bases")

IDS = st.sampled_from(["a", "b", "c-1", "d.2"])
SOURCE = {"type": "markdown_glob", "path": "docs/**/*.md"}
TEXTS = st.sampled_from(
    [
        "",
        "Plain.",
        "Two\nlines\n",
        "a: b # c",
        "{{ shown }}",
        "'quoted'",
        "größer\n\n  und mehr",
        "on",
    ]
)
RESOURCES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "embedders": st.fixed_dictionaries(
        {"id": IDS, "provider": st.just("hashing")},
        optional={"config": st.fixed_dictionaries({"dimension": st.integers(8, 12)})},
    ),
    "vector_dbs": st.fixed_dictionaries(
        {"id": IDS, "type": st.just("sqlite")},
        optional={"config": st.sampled_from([{"path": "data/x.db"}, {"path": "y.db"}])},
    ),
    "knowledge_bases": st.fixed_dictionaries(
        {"id": IDS, "sources": st.just([SOURCE])},
        optional={
            "description": TEXTS,
            "chunking": st.just({"size": 400}),
            "metadata": st.dictionaries(st.sampled_from(["team", "on", "año"]), TEXTS, max_size=2),
        },
    ),
}


@st.composite
def resources(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Generate resources with unique ids per section; a section may be missing."""
    data = {
        section: draw(st.lists(RESOURCES[section], max_size=3, unique_by=lambda entry: entry["id"]))
        for section in SECTIONS
    }
    return {section: entries for section, entries in data.items() if entries}


@dataclass
class Styled:
    """The text of a project in pieces, and its data."""

    data: dict[str, Any]
    pieces: list[tuple[str, str]] = field(default_factory=list)
    """Pieces of text with their owner: `section/id` of an entry, `section/` where new entries may
    go, or empty."""
    newline: str = "\n"

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces).replace("\n", self.newline)

    def pattern(self, touched: set[str]) -> re.Pattern[str]:
        """Return a pattern of the texts that are allowed if only these entries change."""
        parts = [
            "(?s:.*?)" if owner in touched else re.escape(text.replace("\n", self.newline))
            for text, owner in self.pieces
        ]
        return re.compile("".join(parts))


COMMENTS = st.sampled_from(["", "", "# one\n", "\n", "\n# [two]: {\n\n", "  # in\n"])
NOTES = st.sampled_from(["", "", "  # note: 1", " "])


@st.composite
def projects(draw: st.DrawFn, *, nulls: bool = False) -> Styled:
    """Generate a project in any order and style, which is valid unless sections may be null."""
    project = Styled({"name": "demo"} | draw(resources()))
    project.newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    project.pieces.append((draw(st.sampled_from(["", "# top\n", "---\n", "\ufeff"])), ""))
    order = draw(st.permutations(["name", *SECTIONS]))
    for section in order:
        project.pieces.append((draw(COMMENTS), ""))
        if section == "name":
            project.pieces.append(
                (draw(st.sampled_from(["name: demo\n", '"name": "demo" # n\n'])), "")
            )
        else:
            _section(draw, project, section, nulls)
    project.pieces.append((draw(COMMENTS), ""))
    if not draw(st.booleans()) and not project.text.endswith(f"lines{project.newline}"):
        last = max(index for index, (text, _) in enumerate(project.pieces) if text)
        text, owner = project.pieces[last]
        project.pieces[last] = (text.removesuffix("\n"), owner)
    project.pieces += [("", f"{section}/") for section in SECTIONS if not _stands(project, section)]
    return project


def _stands(project: Styled, section: str) -> bool:
    return any(owner == f"{section}/" for _, owner in project.pieces)


def _section(draw: st.DrawFn, project: Styled, section: str, nulls: bool) -> None:
    entries = project.data.get(section, [])
    key = draw(st.sampled_from([section, f'"{section}"', f"'{section}' "]))
    if not entries:
        value = draw(st.sampled_from([None, "  []", " [\n]", *["", " null", " ~"] * nulls]))
        if value is not None:
            project.data[section] = [] if "[" in value else None
            project.pieces += [(f"{key}:", ""), (value, f"{section}/")]
            project.pieces += [(draw(NOTES), ""), ("", f"{section}/"), ("\n", "")]
        return
    style = draw(st.sampled_from(["block", "indentless", "line", "lines"]))
    if style in ("line", "lines"):
        _flow_section(draw, project, section, key, "\n  " if style == "lines" else "")
        return
    indent = "" if style == "indentless" else draw(st.sampled_from(["  ", "    "]))
    project.pieces.append((f"{key}:{draw(NOTES)}\n", ""))
    for index, entry in enumerate(entries):
        project.pieces.append((draw(COMMENTS) if index else "", ""))
        text = draw(st.sampled_from([_flow, _block]))(entry, indent + "  ")
        project.pieces += [(f"{indent}- ", ""), (text, f"{section}/{entry['id']}")]
        project.pieces.append(("" if text.endswith("lines") else draw(NOTES), ""))
        project.pieces += [("", f"{section}/")] * (index == len(entries) - 1)
        project.pieces.append(("\n", ""))


def _flow_section(draw: st.DrawFn, project: Styled, section: str, key: str, gap: str) -> None:
    entries = project.data[section]
    project.pieces.append((f"{key}: [{gap}", ""))
    for index, entry in enumerate(entries):
        last = index == len(entries) - 1
        project.pieces.append((_flow(entry, "    "), f"{section}/{entry['id']}"))
        project.pieces += [("", f"{section}/")] * last
        note = draw(st.sampled_from(["", "  # ] }"])) if gap else ""
        comma = draw(st.sampled_from(["", ","])) if last else ","
        project.pieces.append((f"{comma}{note}{gap if not last else gap[:1]}", ""))
    project.pieces.append((f"]{draw(NOTES)}\n", ""))


def _flow(entry: dict[str, Any], indent: str) -> str:
    return json.dumps(entry, ensure_ascii=False)


def _block(entry: dict[str, Any], indent: str) -> str:
    """Format an entry with one line per key; multi-line texts are block scalars."""
    lines = []
    for key, value in entry.items():
        if isinstance(value, str) and value.endswith("s\n"):
            text = "".join(f"\n{indent}  {line}" for line in value.splitlines())
            lines.append(f"{key}: |{text}")
        elif isinstance(value, dict) and value and key != "metadata":
            inner = "".join(
                f"\n{indent}  {name}: {json.dumps(item)}" for name, item in value.items()
            )
            lines.append(f"{key}:{inner}")
        else:
            lines.append(f'"{key}": {json.dumps(value, ensure_ascii=False)}')
    return f"\n{indent}".join(lines)
