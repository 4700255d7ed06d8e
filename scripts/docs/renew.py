"""Write the generated pages, and the generated blocks of others, again: `make pages`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scripts.docs import (
    blocks,
    command_reference,
    event_reference,
    home_page,
    rest_reference,
    yaml_reference,
)

ROOT = Path(__file__).parents[2]
PAGES: dict[str, Callable[[], str]] = {
    home_page.PAGE: home_page.home_page,
    yaml_reference.PAGE: yaml_reference.reference_page,
    command_reference.PAGE: command_reference.command_reference,
    event_reference.PAGE: event_reference.event_reference,
    rest_reference.PAGE: rest_reference.rest_reference,
}
"""Each generated page, and the function that returns its text."""


if __name__ == "__main__":
    for name, text in PAGES.items():
        (ROOT / name).write_text(text(), encoding="utf-8")
    for name in blocks.PAGES:
        page = (ROOT / name).read_text(encoding="utf-8")
        (ROOT / name).write_text(blocks.with_blocks(page), encoding="utf-8")
