"""`render:` how passages are written into a prompt: a renderer, a template, or a template file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from lorebind_config.declarations.base import RefusedError, refused
from lorebind_config.declarations.values import FILE_PATTERN, inside_project
from lorebind_config.errors import did_you_mean

RENDERERS = ("bullets", "json", "xml", "markdown")
PASSAGE_NAMES = ("marker", "index", "source", "content", "score", "metadata")
"""The fields that a passage template can use."""

_TEMPLATE = re.compile(r"\{\{(.*?)(\}\}|$)", re.DOTALL)
_NAMES = re.compile(r"\s*\.([A-Za-z0-9_-]+)((?:\.[A-Za-z0-9_-]+)*)\s*")
_FILE = r"[^{}]*\.[A-Za-z0-9]{1,8}"


def is_template(render: str) -> bool:
    return "{{" in render


def is_file(render: str) -> bool:
    """Check whether the value names a template file; it has an extension, as in `passage.txt`."""
    return not is_template(render) and render not in RENDERERS


def check_passage_template(text: str) -> None:
    """Refuse a template that cannot render passages.

    Raises:
        RefusedError: with what is wrong and an example of a template.
    """
    named: set[str] = set()
    for match in _TEMPLATE.finditer(text):
        names = _NAMES.fullmatch(match[1])
        if not match[2] or names is None:
            raise _refused(f"{match[0][:60]!r} is not a template", "write it as in {{ .content }}")
        if names[1] not in PASSAGE_NAMES:
            hint = did_you_mean(names[1], PASSAGE_NAMES)
            raise _refused(f"a passage has no {names[1]!r}", hint)
        if bool(names[2]) != (names[1] == "metadata"):
            hint = "write a field such as {{ .content }}, or {{ .metadata.NAME }}"
            raise _refused(f"{match[0]} names no field of a passage", hint)
        named.add(names[1])
    if "content" not in named:
        raise _refused("the template omits the text of the passage", "add {{ .content }}")
    if not named & {"marker", "index"}:
        hint = "add {{ .marker }}, which renders as [1], or [{{ .index }}]"
        raise _refused("the template omits the number that citations need", hint)


def _render(value: str) -> str:
    if is_template(value):
        check_passage_template(value)
    elif value not in RENDERERS:
        if not re.fullmatch(_FILE, value):
            hint = f"{did_you_mean(value, RENDERERS)}; or write a template or the name of its file"
            raise _refused(f"{value!r} is not a known way to render passages", hint)
        inside_project(value)
    return value


def _refused(message: str, hint: str) -> RefusedError:
    return refused(message, hint)


Render = Annotated[
    str,
    AfterValidator(_render),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(RENDERERS)},
                {"type": "string", "pattern": r"\{\{[\s\S]*\}\}"},
                {"type": "string", "pattern": f"^{_FILE}$", "allOf": [{"pattern": FILE_PATTERN}]},
            ]
        }
    ),
]
"""A renderer, a template for each passage, or the name of a template file."""
