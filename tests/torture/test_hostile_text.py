"""Hostile text in names, documents and arguments: no printed text controls a terminal."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.app.helpers import PROJECT, WORKFLOW, Cli
from tests.app.test_terminal import ACTING
from tests.bindings.helpers import write

from .trials import Trials

PARTS = [
    *map(chr, [*range(1, 32), *range(127, 160)]),
    *"\u2028\u2029\u202a\u202d\u202e\u2066\u2068\u2069\u200d\u200f\ufeff",
    *"aé東👩'\"\\{}[]:#-&*!|>%@`,? ",
    "\x1b]0;pwned\x07",
    "\x1b[2J",
    "\x1b[31m",
    "\x9b2J",
    "\x1b]8;;http://x\x1b\\",
    "\r\n",
    "keys",
    ":warning:",
    "[bold]",
]
COLOUR = re.compile("\x1b\\[[0-9;]*m")


def test_no_text_acts_on_a_terminal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    trials: Trials,
) -> None:
    """With or without colors, no text controls the terminal; JSON and YAML data stay exact."""
    cli = Cli(tmp_path, monkeypatch, capsys)

    def check(case: random.Random) -> None:
        root = tmp_path / "project"
        shutil.rmtree(root, ignore_errors=True)
        text = f"# Keys {_text(case)}\n\n{'Rotate the keys. ' * 50}{_text(case)}\n"
        name = re.sub(r"[/\\]", "", _text(case))
        scalar = yaml.safe_dump(_text(case), default_style='"', width=10_000).strip()
        project = PROJECT.replace("How we work", scalar).replace(
            "{ team: ops }", f"{{team: {scalar}}}"
        )
        root.mkdir()
        cli.move_to(root)
        (root / "docs").mkdir()
        (root / f"docs/a{name}.md").write_text(text, newline="")
        (root / f"docs/b{name}.md").write_text("none\0")
        write(root, {"lorebind.yaml": project, "workflows/reply.yaml": WORKFLOW})
        query = ["knowledge", "query", "docs", "-q", f"keys {_text(case)}", "--min-score", "0"]
        plain = [
            cli("knowledge", "ingest", "docs"),
            cli(*query),
            cli("knowledge", "list"),
            cli("ask", ".", f"keys {_text(case)}"),
            cli("knowledge", case.choice(["get", "plan"]), _text(case)),
            cli("run", "reply", "-i", f"question={_text(case)}"),
        ]
        for done in plain:
            assert not ACTING.search(done.out + done.err), done
            assert "Traceback" not in done.err, done
        outcomes = cli(*query, "-o", "json"), cli(*query, "-o", "yaml")
        for done in outcomes:
            assert done.code == 0, plain[0].out[-700:]
            assert not ACTING.search(done.out + done.err), done
        matches = json.loads(outcomes[0].out)["matches"], yaml.safe_load(outcomes[1].out)["matches"]
        assert matches[0] == matches[1]
        with monkeypatch.context() as patch:
            patch.setenv("FORCE_COLOR", "1")
            assert COLOUR.sub("", cli(*query).out) == plain[1].out

    trials.run("no text acts on a terminal", check, short=3, full=120)


def _text(case: random.Random) -> str:
    return "".join(case.choices(PARTS, k=case.randint(1, 12)))
