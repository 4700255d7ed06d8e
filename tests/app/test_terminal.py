"""Output to a terminal or a pipe: no text controls the terminal, and no output is lost silently."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess

import pytest
import yaml

from lorebind.cli.terminal import one_line, visible
from lorebind_config.namespace import document_id
from tests.processes import run_program

from .forked_python import ForkedPython
from .helpers import LOREBIND, PROJECT, Cli, run_lorebind

HOSTILE = "\x1b]0;pwned\x07 \x1b[2J \x9b31m \x85 \u202e \u2066 \u2028 \r \b \x7f"
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
QUERY = ["knowledge", "query", "docs", "-q", "rotate the keys"]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def hostile(cli: Cli) -> Cli:
    """Return an ingested project whose names and texts try to control the terminal."""
    cli.write(
        {
            "docs/a\nforged line\x1b[2J.md": f"# Keys {HOSTILE}\n\nRotate the keys. {HOSTILE}\n",
            "docs/bad\nforged line\x1b[2J.md": "none\0",
            "lorebind.yaml": PROJECT.replace("How we work", json.dumps(HOSTILE)),
        }
    )
    assert cli("knowledge", "ingest").code == 1
    return cli


def test_what_acts_is_written_out() -> None:
    """Controls, line separators and reversals are escaped as in Python; newlines and tabs stay."""
    assert visible("a\x1b[2J\x9b\u202eb\r\nc\td\re\udcff") == (
        "a\\x1b[2J\\x9b\\u202eb\nc\td\\re\\udcff"
    )
    assert one_line("a\nb\tc\x07") == "a\\nb\\tc\\x07"
    for text in ("Zürich, naïve 東京 👩\u200d👩 \u05d0\u200f", "a\n\tb\n"):
        assert visible(text) == text


COMMANDS = [
    QUERY,
    ["knowledge", "list"],
    ["knowledge", "get", "docs"],
    ["knowledge", "export"],
    ["knowledge", "ingest"],
    ["knowledge", "plan"],
    ["knowledge", "get", HOSTILE],
    ["knowledge", "query", "docs", "-q", "x", "--filter", HOSTILE],
    [HOSTILE],
    ["validate", "-p", HOSTILE],
    ["ask", ".", "rotate the keys"],
    ["run", "reply", "-i", "question=rotate the keys"],
    ["bindings", "explain"],
    ["doctor"],
]


def test_nothing_printed_acts(hostile: Cli) -> None:
    """Neither results nor errors control the terminal, in any format; and no name adds a line."""
    for command in COMMANDS:
        for more in ([], ["--output", "json"], ["--output", "yaml"]):
            done = hostile(*command, *more)
            assert done.out + done.err, command
            assert not ACTING.search(done.out + done.err), done
            assert "\nforged" not in done.out + done.err, done


def test_data_is_exact(hostile: Cli) -> None:
    """JSON and YAML contain exactly the characters that were ingested."""
    from lorebind import Project

    with Project.load(hostile.root) as project:
        right = [(match.text, match.metadata["uri"]) for match in project.query("docs", QUERY[-1])]
    assert any("\x9b31m \x85 \u202e \u2066 \u2028" in text for text, _ in right)
    for output, parse in (("json", json.loads), ("yaml", yaml.safe_load)):
        data = parse(hostile(*QUERY, "-o", output).out)
        assert [(match["text"], match["metadata"]["uri"]) for match in data["matches"]] == right


def test_colours_are_ours_alone(hostile: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, text without its colors equals the text without a terminal."""
    commands = (QUERY, ["knowledge", "list"], ["bindings", "explain"])
    plain = [hostile(*command).out for command in commands]
    monkeypatch.setenv("FORCE_COLOR", "1")
    for command, right in zip(commands, plain, strict=True):
        coloured = hostile(*command).out
        assert coloured != right
        without = re.sub("\x1b\\[[0-9;]*m", "", coloured)
        assert [line.rstrip() for line in without.splitlines()] == [
            line.rstrip() for line in right.splitlines()
        ]


LONG = "docs/reference/environment-and-variables/environment-variables.md"


def test_rows_are_whole_in_a_pipe(cli: Cli) -> None:
    """Other programs get each row of a table in one line, so that they find uris and ids."""
    cli.write({LONG: "# Environment variables of the thing that is described here\n\nAny.\n"})
    cli("ingest", "docs")
    (row,) = [
        line for line in cli("knowledge", "documents", "docs").out.splitlines() if LONG in line
    ]
    assert document_id(LONG) in row


@pytest.mark.parametrize("width", [60, 80, 120])
def test_rows_wrap_in_a_terminal(cli: Cli, forked: ForkedPython, width: int) -> None:
    """No line is wider than the terminal, nothing is cut, and ids are whole from 80 columns."""
    cli.write({LONG: "# Environment variables of the thing that is described here\n\nAny.\n"})
    cli("ingest", "docs")
    ours, theirs = pty.openpty()
    environ = os.environ | {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}
    command = [forked.commands / "lorebind", "knowledge", "documents", "docs"]
    subprocess.run(command, cwd=cli.root, env=environ, stdout=theirs, timeout=60, check=True)
    os.close(theirs)
    printed = re.sub("\x1b\\[[0-9;]*m", "", os.read(ours, 100_000).decode())
    os.close(ours)
    rows = printed.split("─\r\n")[1].splitlines()
    assert max(map(len, rows)) <= width
    assert LONG in "".join(row.split("  ")[0] for row in rows)
    assert (document_id(LONG) in printed) == (width >= 80)


@pytest.mark.parametrize("variables", [ASCII, {"PYTHONIOENCODING": "ascii"}], ids=["C", "ascii"])
def test_an_ascii_locale_shows_everything(hostile: Cli, variables: dict[str, str]) -> None:
    """Other characters are escaped, both for people and in data."""
    hostile.write({"docs/zürich.md": "# Zürich\n\nRotate the keys in 東京.\n"})
    hostile("knowledge", "ingest")
    done = run_lorebind(hostile.root, *QUERY, **variables)
    assert (done.code, done.err) == (0, "")
    assert done.out.isascii()
    assert "\\u6771\\u4eac" in done.out
    data = json.loads(run_lorebind(hostile.root, *QUERY, "-o", "json", **variables).out)
    assert any("東京" in match["text"] for match in data["matches"])


LOST = "lorebind: cannot write the output: "


@pytest.mark.parametrize(
    ("redirected", "code", "message"),
    [
        ("> /dev/full", 1, LOST + "No space left on device\n"),
        (">&-", 1, LOST + "it is closed\n"),
        ("| true; exit ${PIPESTATUS[0]}", 141, ""),
        ("--nothing 2> /dev/full", 2, ""),
        ("> /dev/null 2>&- <&-", 0, ""),
    ],
)
def test_lost_output_is_no_success(cli: Cli, redirected: str, code: int, message: str) -> None:
    """A failure to write is reported if possible, and the exit code is never 0."""
    done = run_program(["bash", "-c", f'"$0" knowledge list {redirected}', LOREBIND], cwd=cli.root)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message)


def test_a_database_never_gets_the_place_of_a_closed_stream(cli: Cli) -> None:
    """A file opened as descriptor 1 or 2 would be overwritten by all that print."""
    script = '"$0" knowledge ingest >&- 2>&-; "$0" knowledge ingest > /dev/null 2>&- && "$0" doctor'
    done = run_program(["bash", "-c", script, LOREBIND], cwd=cli.root)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [["schema", "--write"], ["init", "new"]])
def test_files_that_cannot_be_written_are_named(empty_cli: Cli, command: list[str]) -> None:
    """If a file is in the way of a folder, the message is one line without a traceback."""
    for name in (".lorebind", "new"):
        (empty_cli.root / name).write_text("")
    done = empty_cli(*command)
    assert (done.code, done.out) == (1, "")
    assert re.fullmatch(
        r"lorebind: cannot (write|create) .*; (choose a writable folder|make) .*\n", done.err
    )


def test_closed_input_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """`apply -f -` without an input is wrong usage."""
    monkeypatch.setattr("sys.stdin", None)
    done = cli("knowledge", "apply", "-f", "-")
    assert (done.code, done.out) == (2, "")
    assert done.err == "lorebind: standard input is closed; name a file, or pipe one in\n"
