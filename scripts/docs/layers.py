"""Generate what pages say of the layers, from import-linter's contracts and the docstrings.

The blocks stand between markers, see `blocks`.
"""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_SOURCE_ROOTS = ("app", "bindings", "prompts", "knowledge", "config")
_WIDTH = 100
_ON_A_LINE = 3


def layers_block() -> str:
    """Return the drawing of the layers, and a table of their rooms."""
    return "\n".join(["```mermaid", *_drawing(), "```", "", *_tables()])


def ladder_block() -> str:
    """Return the layers as lines of text, the highest first."""
    return "\n".join(["```text", *_ladder(), "```"])


def packages() -> list[str]:
    """Return the packages, each above those that it may import."""
    (layers,) = [contract["layers"] for contract in _contracts() if "containers" not in contract]
    return list(layers)


def layers_of(package: str) -> list[list[str]]:
    """Return the layers within a package, the highest first, each as the list of its rooms.

    A package without a contract has none.
    """
    contracts = [contract for contract in _contracts() if package in contract.get("containers", [])]
    layers = contracts[0]["layers"] if contracts else []
    return [[room.strip() for room in layer.split("|")] for layer in layers]


def first_sentence(module: Path) -> str:
    """Return the first sentence of the docstring of a module or a package."""
    path = module / "__init__.py" if module.is_dir() else module
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph)[0].removesuffix(":") if paragraph else ""


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["type"] == "layers"]


def _folder(package: str) -> Path:
    return next(ROOT / root / package for root in _SOURCE_ROOTS if (ROOT / root / package).is_dir())


def _module(package: str, room: str) -> Path:
    folder = _folder(package) / room
    return folder if (folder / "__init__.py").exists() else folder.with_suffix(".py")


def _drawing() -> Iterator[str]:
    yield "flowchart TB"
    ends: list[tuple[str, str]] = []
    for name in packages():
        if not (layers := layers_of(name)):
            yield f'  {name}["{name}"]'
            ends.append((name, name))
            continue
        yield f'  subgraph {name}_rooms["{name}"]'
        boxes = {f"{name}{number}": box for number, box in enumerate(_boxes(layers))}
        yield from (f'    {box}["{text}"]' for box, text in boxes.items())
        yield "    " + " --> ".join(boxes)
        yield "  end"
        ends.append((next(iter(boxes)), list(boxes)[-1]))
    for (_, bottom), (top, _) in itertools.pairwise(ends):
        yield f"  {bottom} --> {top}"


def _boxes(layers: list[list[str]]) -> Iterator[str]:
    """Return the texts of the boxes: layers of one room each share a box, with a line for each."""
    for is_single, some in itertools.groupby(layers, key=lambda rooms: len(rooms) == 1):
        if is_single:
            yield "<br>".join(room for (room,) in some)
            continue
        for rooms in some:
            lines = (rooms[at : at + _ON_A_LINE] for at in range(0, len(rooms), _ON_A_LINE))
            yield "<br>".join(", ".join(line) for line in lines)


def _tables() -> Iterator[str]:
    yield from _table("package", ((name, _folder(name)) for name in packages()))
    for name in packages():
        yield ""
        if layers := layers_of(name):
            rooms = [(room, _module(name, room)) for layer in layers for room in layer]
            yield from _table(f"room of `{name}`, the highest layer first", rooms)
            continue
        folders = sorted(path.parent for path in _folder(name).glob("*/__init__.py"))
        yield from _table(
            f"folder of `{name}`", [(path.name, path) for path in folders if first_sentence(path)]
        )


def _table(head: str, rows: Iterable[tuple[str, Path]]) -> Iterator[str]:
    yield f"| {head} | what it is about |"
    yield "| --- | --- |"
    for name, path in rows:
        yield f"| `{name}` | {first_sentence(path)} |"


def _ladder() -> Iterator[str]:
    names = packages()
    width = max(map(len, names)) + 2
    for name in names:
        text = name.ljust(width) + first_sentence(_folder(name))
        yield from textwrap.wrap(text, _WIDTH, subsequent_indent=" " * width)
        for rooms in layers_of(name):
            yield from textwrap.wrap(
                ", ".join(rooms), _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8
            )
