"""Edits YAML text: replaces or adds entries of a list, and keeps every other byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

_WIDTH = 100


def as_yaml(data: Any, *, ascii_only: bool = False) -> str:
    """Return plain data as YAML with its keys in order; `ascii_only` escapes other characters."""
    text: str = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=not ascii_only, width=_WIDTH
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Indents lists below their keys, as people write them, and never writes aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # In single quotes, PyYAML writes these line breaks as they are but reads back others.
        style = '"' if any(mark in data for mark in "\x85\u2028\u2029") else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


def put_entries(text: str, section: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a YAML mapping with these entries in the list `section`.

    An entry with the same id is replaced where it is, including the comments inside it. Other
    entries are added at the end of the list. A missing section is added at the end of the text.
    The line endings of the text are used.

    Args:
        text: Valid YAML whose top level is a mapping.
        section: A key at the top level, whose value, if any, is a list or null.
        entries: Plain data, each with an `id`.

    Raises:
        YAMLError: The text is not valid YAML, or an edit made it invalid.
    """
    for entry in entries:
        start, end, put = _edit(text, section, entry)
        if "\r\n" in text:
            put = put.replace("\n", "\r\n")
        text = text[:start] + put + text[end:]
    return text


def _edit(text: str, section: str, entry: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return the start and the end of the range to replace, and its replacement."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    for key, value in pairs:
        if key.value != section:
            continue
        if isinstance(value, yaml.SequenceNode) and value.value:
            return _into(text, value, entry)
        start = text.index(":", key.end_mark.index) + 1
        end = max(start, value.end_mark.index)
        if _is_flow(root):
            return start, end, f" [{_flow(entry)}]"
        line_end = _line_end(text, end)
        item = _item(entry, key.start_mark.column + 2)
        return start, line_end, f"{text[end:line_end].rstrip()}\n{item}"
    if root is not None and _is_flow(root):
        last = max((value.end_mark.index for _, value in pairs), default=root.start_mark.index + 1)
        return last, last, f"{', ' if pairs else ''}{section}: [{_flow(entry)}]"
    gap = "\n" if text.endswith("\n") or not text else "\n\n"
    column = root.start_mark.column if root is not None else 0
    return len(text), len(text), f"{gap}{' ' * column}{section}:\n{_item(entry, column + 2)}\n"


def _into(text: str, entries: yaml.SequenceNode, entry: Mapping[str, Any]) -> tuple[int, int, str]:
    last = _end(entries.value[-1], text)
    for node in entries.value:
        if _id(node) == entry["id"]:
            return node.start_mark.index, _end(node, text), _like(node, entry)
    if _is_flow(entries):
        return last, last, f", {_flow(entry)}"
    last = _line_end(text, last)
    return last, last, f"\n{_item(entry, entries.start_mark.column)}"


def _is_flow(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _id(node: yaml.Node) -> str | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value.value for key, value in pairs if key.value == "id"), None)


def _like(node: yaml.Node, entry: Mapping[str, Any]) -> str:
    """Format an entry in the style of the one that it replaces."""
    if _is_flow(node):
        return _flow(entry)
    return _indented(entry, node.start_mark.column).lstrip()


def _item(entry: Mapping[str, Any], indent: int) -> str:
    return " " * indent + "- " + _indented(entry, indent + 2).lstrip()


def _indented(entry: Mapping[str, Any], indent: int) -> str:
    lines = as_yaml(dict(entry)).rstrip("\n").split("\n")
    return "\n".join(" " * indent + line if line else line for line in lines)


def _flow(entry: Mapping[str, Any]) -> str:
    text: str = yaml.dump(
        dict(entry),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=True,
        width=float("inf"),
    )
    return text.strip()


def _end(node: yaml.Node, text: str) -> int:
    """Return where a value ends; PyYAML's mark for a block is the start of the next value."""
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return len(text[: node.end_mark.index].rstrip())
    if not isinstance(node, yaml.CollectionNode) or _is_flow(node) or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last, text)


def _line_end(text: str, at: int) -> int:
    """Return where the line ends, after its comment if it has one."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if text[at:end].endswith("\r") else end
