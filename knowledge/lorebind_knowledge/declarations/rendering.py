"""`render:` how passages are written into a prompt: by name, by a template, or by its file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from lorebind_knowledge.declarations.base import Fault, RefusedError
from lorebind_knowledge.declarations.values import FILE_PATTERN, inside_project
from lorebind_knowledge.errors import did_you_mean

RENDERERS = ("bullets", "json", "xml", "markdown")
PASSAGE_NAMES = ("marker", "index", "source", "content", "score", "metadata")
"""What the template of a passage may name."""

_TEMPLATE = re.compile(r"\{\{(.*?)(\}\}|$)", re.DOTALL)
_NAMES = re.compile(r"\s*\.([A-Za-z0-9_-]+)((?:\.[A-Za-z0-9_-]+)*)\s*")
_FILE = r"[^{}]*\.[A-Za-z0-9]{1,8}"


def is_template(render: str) -> bool:
    return "{{" in render


def is_file(render: str) -> bool:
    """Whether it names the file of a template; such a name has an ending, as in `passage.txt`."""
    return not is_template(render) and render not in RENDERERS


def check_passage_template(text: str) -> None:
    """Refuse a template that cannot write passages.

    Raises:
        RefusedError: saying what is wrong, and what a template looks like.
    """
    named: set[str] = set()
    for found in _TEMPLATE.finditer(text):
        names = _NAMES.fullmatch(found[1])
        if not found[2] or names is None:
            raise _refused(f"{found[0][:60]!r} is not a template", "write it as in {{ .content }}")
        if names[1] not in PASSAGE_NAMES:
            hint = did_you_mean(names[1], PASSAGE_NAMES)
            raise _refused(f"a passage has no {names[1]!r}", hint)
        if bool(names[2]) != (names[1] == "metadata"):
            hint = "write {{ .content }} and the like, or {{ .metadata.NAME }}"
            raise _refused(f"{found[0]} names nothing of a passage", hint)
        named.add(names[1])
    if "content" not in named:
        raise _refused("the template leaves the passage out", "put {{ .content }} into it")
    if not named & {"marker", "index"}:
        hint = "put {{ .marker }} into it, which is [1], or [{{ .index }}]"
        raise _refused("without its number a passage cannot be cited", hint)


def _render(value: str) -> str:
    if is_template(value):
        check_passage_template(value)
    elif value not in RENDERERS:
        if not re.fullmatch(_FILE, value):
            hint = f"{did_you_mean(value, RENDERERS)}; or a template, or its file's name"
            raise _refused(f"{value!r} is no way to write passages", hint)
        inside_project(value)
    return value


def _refused(message: str, hint: str) -> RefusedError:
    return RefusedError([Fault(message, hint)])


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
"""One of the renderers, a template for each passage, or the name of a template's file."""
