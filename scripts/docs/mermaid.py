"""Mermaid diagrams, drawn as SVG when the documentation site is built: readers load no script."""

from __future__ import annotations

import base64
import re
from typing import Any

import mmdr
from pymdownx.superfences import SuperFencesException  # type: ignore[import-untyped]


def drawn(source: str, *_: Any, **__: Any) -> str:
    """Return a diagram as an image, for `custom_fences` of superfences.

    Raises:
        SuperFencesException: the text is not Mermaid.
    """
    try:
        svg = mmdr.render(source).svg()
    except Exception as error:  # others make superfences show the text
        raise SuperFencesException(f"not Mermaid: {source}") from error
    width = re.search(r'viewBox="\S+ \S+ ([\d.]+)', svg)
    assert width is not None
    encoded = base64.b64encode(svg.encode()).decode()
    # The colors are made for a light page.
    style = f"background: white; width: {width[1]}px"
    return f'<img alt="Diagram" style="{style}" src="data:image/svg+xml;base64,{encoded}">'
