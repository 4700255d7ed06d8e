"""Generate the YAML reference, one Markdown page, from the JSON Schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from lorebind_config.declarations.base import ID_PATTERN
from lorebind_config.declarations.schema import FILES, json_schema
from lorebind_config.declarations.values import FILE_PATTERN, SECRET_PATTERN

Schema: TypeAlias = dict[str, Any]

PAGE = "docs/reference/yaml.md"

_INTRODUCTION = """\
# YAML

Every key, with its type, default and limits. A file declares a [project](#project-file), a
[workflow](#workflow-file) or an [agent](#agent-file). Unknown keys are refused, and values are not
converted: `"5"` is a string, not an integer. `lorebind validate` reports all mistakes of all files;
`lorebind schema` prints the same rules as JSON Schema for editors.

- An *id* starts with a letter or digit, followed by letters, digits, `_`, `.` or `-`.
- A *secret* is one template, `{{ .env.NAME }}` or `{{ .secrets.NAME }}`, and never a literal.
- A *file pattern* is a path or glob relative to the project folder, and cannot leave it.
  Its braces expand to at most 256 patterns, each with at most four `**`.
"""

_EXAMPLES = {
    "Project file": """\
name: handbook
knowledge_bases:
  - id: docs
    sources:
      - { type: markdown_glob, path: "docs/**/*.md" }
knowledge:
  - { id: docs, max_tokens: 2000 }
""",
    "Workflow file": """\
# The same keys as in a file of its own, here within a project.
name: handbook
workflows:
  - id: answer
    input:
      question: { type: string, description: The question to answer. }
    tasks:
      - { id: reply, prompt: "{{ .workflow.input.question }}" }
    outputs:
      answer: "{{ .tasks.reply.output }}"
""",
    "Agent file": """\
# The same keys as in a file of its own, here within a project.
name: handbook
knowledge_bases:
  - { id: docs, sources: [{ type: markdown_glob, path: "docs/**/*.md" }] }
agents:
  - id: librarian
    instructions: Answer from the passages, and cite them.
    knowledge:
      - { id: docs, top_k: 4, min_score: null }     # null clears what an outer scope set
""",
}
"""Each is a whole project."""

_PATTERNS = {ID_PATTERN: "id", SECRET_PATTERN: "secret", FILE_PATTERN: "file pattern"}
_TYPES = {
    "string": "string",
    "boolean": "true or false",
    "object": "mapping",
    "array": "list",
    "null": "null",
}
_UNDESCRIBED = "Not described by its plugin."
_TAGS = ("provider", "type", "strategy")


def reference_page() -> str:
    """The whole page: each declaration once, where it is met first."""
    return _Page().text()


class _Page:
    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self.headings: dict[str, str] = {}
        for kind, declaration in FILES.items():
            schema = json_schema(kind)
            self.definitions |= schema["$defs"] | {declaration.__name__: schema}
            self.headings[declaration.__name__] = f"{kind.capitalize()} file"

    def text(self) -> str:
        sections = [_INTRODUCTION]
        for declaration in FILES.values():
            name = declaration.__name__
            # The parts get their headings first, so that the tables can link to them.
            parts = list(self._parts(name))
            sections += [self._section(part) for part in (name, *parts)]
        return "\n".join(sections)

    def _parts(self, name: str, path: str = "", chosen: str = "") -> Iterator[str]:
        """All that a declaration holds; headings are the keys that lead there, and its tag."""
        for key, value in self.definitions[name]["properties"].items():
            new = [(inner, mark) for inner, mark in _held(value) if inner not in self.headings]
            choices = {}
            # All get their headings before any is entered: a task may hold tasks of other kinds.
            for inner, mark in new:
                tag = _tag(self.definitions[inner])
                choices[inner] = f" with `{tag[0]}: {tag[1]}`" if tag else chosen
                if len(new) > 1 and not any(_tag(self.definitions[name]) for name, _ in new):
                    # Their keys tell them apart.
                    choices[inner] = f" with `{self.definitions[inner]['required'][0]}`"
                self.headings[inner] = f"`{path}{key}{mark}`{choices[inner]}"
            for inner, mark in dict(new).items():
                yield inner
                yield from self._parts(inner, f"{path}{key}{mark}.", choices[inner])

    def _section(self, name: str) -> str:
        definition, heading = self.definitions[name], self.headings[name]
        level = "###" if heading.startswith("`") else "##"
        lines = [f"{level} {heading}", "", definition.get("description", _UNDESCRIBED)]
        required = definition.get("required", ())
        refused = {
            key for rule in definition.get("not", {}).get("anyOf", ()) for key in rule["required"]
        }
        rows = [row for row in definition["properties"].items() if row[0] not in refused]
        rows.sort(key=lambda row: row[0] not in required)
        if rows:
            lines += ["", "| key | type | default | meaning |", "| --- | --- | --- | --- |"]
        for key, value in rows:
            default = "*required*" if key in required else _default(value)
            text = value.get("description", _UNDESCRIBED)
            cells = (f"`{key}`", self._type(value), default, text)
            lines.append(f"| {' | '.join(cells)} |")
        if heading in _EXAMPLES:
            lines += ["", "```yaml", _EXAMPLES[heading].rstrip(), "```"]
        return "\n".join(lines) + "\n"

    def _type(self, value: Schema) -> str:
        """In words: `integer (1 to 50)`, `list of id`, a link to the section that describes it."""
        if "$ref" in value:
            name = _referred(value)
            tag = _tag(self.definitions[name])
            return f"[{f'`{tag[1]}`' if tag else 'mapping'}](#{anchor(self.headings[name])})"
        if choices := value.get("oneOf") or value.get("anyOf"):
            return " or ".join(map(self._type, choices))
        if "const" in value or "enum" in value:
            return " or ".join(f"`{word}`" for word in value.get("enum") or [value["const"]])
        if value.get("pattern") in _PATTERNS:
            return _PATTERNS[value["pattern"]]
        kind: str = value.get("type", "anything")
        words = _TYPES.get(kind, kind)
        if kind == "array":
            words = f"list of {self._type(value['items'])}"
        elif held := list(_held(value)):
            words = f"mapping of names to {self._type({'$ref': held[0][0]})}"
        return words + _limits(value)


def _held(value: Schema, mark: str = "") -> Iterator[tuple[str, str]]:
    """The declarations that a value holds, each with what its path says of lists and mappings."""
    if "$ref" in value:
        yield _referred(value), mark
    for choice in [*value.get("oneOf", ()), *value.get("anyOf", ())]:
        yield from _held(choice, mark)
    if "items" in value:
        yield from _held(value["items"], f"{mark}[]")
    for inner in value.get("patternProperties", {}).values():
        yield from _held(inner, f"{mark}.NAME")


def _referred(value: Schema) -> str:
    name: str = value["$ref"].rsplit("/", 1)[-1]
    return name


def _tag(definition: Schema) -> tuple[str, str] | None:
    """The key and the word that choose a declaration among others."""
    for key in _TAGS:
        if key in definition.get("required", ()) and "const" in definition["properties"][key]:
            return key, definition["properties"][key]["const"]
    return None


def _default(value: Schema) -> str:
    default = value.get("default", "")
    return "" if default in ("", [], {}) else f"`{json.dumps(default)}`"


def _limits(value: Schema) -> str:
    low, high = value.get("minimum"), value.get("maximum")
    if low is not None:
        return f" ({low} to {high})" if high is not None else f" (at least {low})"
    if (above := value.get("exclusiveMinimum")) is not None:
        return (
            f" (more than {above}, at most {high})" if high is not None else f" (more than {above})"
        )
    return " (not empty)" if value.get("minItems") or value.get("minLength") else ""


def anchor(heading: str) -> str:
    """The fragment by which Markdown viewers, GitHub's among them, link to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
