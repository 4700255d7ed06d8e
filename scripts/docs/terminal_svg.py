"""Record the README's picture of a terminal: `make picture`.

The commands run in a pseudo-terminal, so that their output has its colors, in a temporary folder
with the files that the first page of the tutorial shows.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial" / "index.md"
PICTURE = ROOT / "docs" / "terminal.svg"
COMMANDS = ('lorebind ask handbook "How much can I spend on a hotel?" --top-k 2',)
WIDTH = 100

_FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_FONT_FACE = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
_THEME = TerminalTheme(
    (24, 26, 31),
    (220, 223, 228),
    [
        (24, 26, 31),
        (224, 108, 117),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (220, 223, 228),
    ],
)


def main() -> None:
    """Write the picture."""
    recorder = Console(record=True, width=WIDTH, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    with TemporaryDirectory() as folder:
        _write_files(Path(folder))
        for command in COMMANDS:
            recorder.print(Text.assemble(("$ ", "green"), (command, "bold")))
            recorder.print(Text.from_ansi(_output(command, folder).strip()))
    svg = recorder.export_svg(
        title="Lorebind",
        theme=_THEME,
        # A picture may not load fonts of another host; the monospace font of the reader is used.
        code_format=_FONT_FACE.sub("", CONSOLE_SVG_FORMAT),
        unique_id="terminal",
    )
    PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")


def _write_files(folder: Path) -> None:
    for name, text in _FILE.findall(TUTORIAL.read_text(encoding="utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _output(command: str, folder: str) -> str:
    """Return what a command prints to a terminal; its progress bars are not recorded."""
    program, *arguments = shlex.split(command)
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [Path(sys.executable).parent / program, *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=inside,
        stderr=subprocess.DEVNULL,
    )
    os.close(inside)
    parts = []
    while part := _read(terminal):
        parts.append(part)
    os.close(terminal)
    if code := process.wait():
        raise SystemExit(f"{command} ended with {code}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux reports that the program has closed its side
        return b""


if __name__ == "__main__":
    main()
