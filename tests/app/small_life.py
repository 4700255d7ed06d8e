"""A small project's life, in the process that forks: programs find its modules and caches there."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

PROJECT = """\
name: small
embedders: [{{id: small, provider: {embedder}}}]
knowledge_bases:
  - {{id: words, sources: [{{type: markdown_glob, path: "*.md"}}]}}
"""
COMMANDS = (
    *("ingest words", "query words -q keys", "query words -q keys --explain --output json"),
    *("ask . keys", "knowledge documents words", "knowledge chunks words keys.md", "doctor"),
)


def live(embedder: str = "local") -> None:
    """Ingest and ask as commands do, and leave no thread."""
    from lorebind.cli.commands import app
    from lorebind_config import plugins
    from lorebind_knowledge.plumbing import bridge

    with (
        _in_a_project(embedder),
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")),
    ):
        for command in COMMANDS:
            app(command.split(), standalone_mode=False)
    bridge._stop_at_exit()
    bridge._forget_after_fork()
    plugins.offers.cache_clear()  # a program may register or find others


@contextlib.contextmanager
def _in_a_project(embedder: str) -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "lorebind.yaml").write_text(PROJECT.format(embedder=embedder))
        Path(folder, "keys.md").write_text("# Keys\n\nThe keys are rotated every month.\n")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
