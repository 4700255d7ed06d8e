"""The registry of renderers, and the function that writes passages with one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError, did_you_mean
from lorebind_prompts.rendering.formats import Bullets, JsonLines, Markdown, Xml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_prompts.rendering.base import Passage, Renderer

BUILT_IN: dict[str, Renderer] = {
    "bullets": Bullets(),
    "json": JsonLines(),
    "xml": Xml(),
    "markdown": Markdown(),
}


def renderer_for(name: str) -> Renderer:
    """Return the renderer of that name, or one for a template.

    Raises:
        UsageError: no renderer has that name (the message lists the known ones), or the template
            is invalid.
    """
    if "{{" in name:
        from lorebind_prompts.rendering.template import TemplateRenderer  # loads the declarations

        return TemplateRenderer(name)
    if name not in BUILT_IN:
        raise UsageError(f"no renderer {name!r}; {did_you_mean(name, BUILT_IN)}")
    return BUILT_IN[name]


def render(
    passages: Sequence[Passage], *, renderer: str = "bullets", label: str | None = None
) -> str:
    """Return all passages as one block; an empty string if there are none.

    All kinds of line breaks become `\\n`. Invisible characters and blank lines around a passage are
    removed. Each source is put on one line. `label` names the block.
    """
    if not passages:
        return ""
    chosen = renderer_for(renderer)
    return chosen.block([chosen.entry(passage) for passage in passages], label)
