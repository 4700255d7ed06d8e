"""`lorebind trust`: `ask` runs no code of a project that its user does not trust."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from lorebind import trust
from lorebind_config import project_modules
from lorebind_config.errors import UsageError
from lorebind_config.reading.yaml_source import YamlSource
from lorebind_config.trust import read_demands

from .forked_python import ForkedPython
from .helpers import DOCUMENTS, EXTENSION, HOOKS, PROJECT, Cli

pytestmark = pytest.mark.usefixtures("home")

QUESTION = "How often must the keys be rotated?"

LINE = (
    f"lorebind.yaml:{PROJECT.count(chr(10)) + 1}:34: extension wants to run hooks:Audit, in "
    "hooks.py\n"
)
STOPPED = (
    "lorebind: this project is not trusted, and demands the permissions listed above; read its "
    "files, then trust it with: lorebind trust {}; or for this run with --trust\n"
)


def test_ask_stops_before_anything_is_run(others_cli: Cli) -> None:
    """The project's demands and the command to trust it are printed; nothing runs."""
    (others_cli.root / "a b").mkdir()
    for path, named in ((".", "."), ("lorebind.yaml",) * 2, ("./a b/..", "'a b/..'")):
        done = others_cli("ask", path, QUESTION)
        assert (done.code, done.out, done.err) == (2, "", LINE + STOPPED.format(named))
    assert not (others_cli.root / "was-run").exists()
    assert not (others_cli.root / ".lorebind").exists()


def test_trust_lets_it_run_until_something_new_is_demanded(others_cli: Cli) -> None:
    """`trust` shows the same list; after it, only new demands are shown, and settings never."""
    done = others_cli("trust", ".")
    assert (done.code, done.out) == (0, f"{LINE}. is trusted with this\n")
    assert not (others_cli.root / "was-run").exists()
    done = others_cli("ask", ".", QUESTION)
    assert (done.code, done.err) == (0, "")
    assert (others_cli.root / "was-run").exists()
    others_cli.write({"docs/new.md": "# New\n\nNothing to do with it.\n"})
    assert others_cli("ask", ".", QUESTION).code == 0
    others_cli.write({"lorebind.yaml": PROJECT + EXTENSION + "description: other\n"})
    assert others_cli("ask", ".", QUESTION).code == 0
    others_cli.write({"hooks.py": HOOKS + "\nprint('more')\n"})
    assert others_cli("ask", ".", QUESTION).err == LINE + STOPPED.format(".")
    new = 'models: [{ id: m, provider: openai, model: m, api_key: "{{ .env.KEY }}" }]\n'
    others_cli.write({"hooks.py": HOOKS, "lorebind.yaml": PROJECT + EXTENSION + new})
    done = others_cli("ask", ".", QUESTION)
    assert (done.code, "hooks" in done.err, done.err.count("model 'm' wants")) == (2, False, 2)
    others_cli.write({"lorebind.yaml": PROJECT + EXTENSION})
    assert others_cli("ask", ".", QUESTION).code == 0


def test_what_is_shown_is_read_once(others_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trust check lists the project that was loaded, and runs the bytes that it has read."""
    read: list[str] = []
    parse, open_module = YamlSource.parse, project_modules.open_inside

    def parsed(text: str, shown_as: str) -> YamlSource:
        read.append(shown_as)
        return parse(text, shown_as)

    def opened(root: Path, file: Path) -> BinaryIO:
        read.append(str(file))
        return open_module(root, file)

    monkeypatch.setattr(YamlSource, "parse", parsed)
    monkeypatch.setattr(project_modules, "open_inside", opened)
    assert others_cli("ask", ".", QUESTION, "--trust").code == 0
    assert (others_cli.root / "was-run").exists()
    assert sorted(read) == ["hooks.py", "lorebind.yaml"]


def test_trust_may_be_for_once(others_cli: Cli) -> None:
    """`--trust` runs the project and stores nothing."""
    assert others_cli("ask", ".", QUESTION, "--trust").code == 0
    assert (others_cli.root / "was-run").exists()
    assert others_cli("ask", ".", QUESTION).code == 2


def test_trust_can_be_listed_and_removed(others_cli: Cli, tmp_path: Path) -> None:
    """Trust is removed by the folder, however its path is written, or by its file."""
    assert others_cli("trust", "--list").out == ""
    link = tmp_path.parent / f"link to {tmp_path.name}"
    link.symlink_to(others_cli.root)
    for removed in (".", "lorebind.yaml", str(link)):
        others_cli("trust", str(link))
        assert others_cli("trust", "--list").out == f"{others_cli.root.resolve()}\n"
        assert others_cli("trust", "--remove", removed).out == f"{removed} is no longer trusted\n"
        assert others_cli("ask", ".", QUESTION).code == 2
    assert others_cli("trust", "--remove", ".").out == ". was not trusted\n"
    assert json.loads(others_cli("trust", "--list", "-o", "json").out) == {"trusted": []}


@pytest.mark.parametrize("variable", ["env", "secrets"])
def test_variables_need_trust_too(
    empty_cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """A project that sends a variable to an address is stopped before it is resolved."""
    source = (
        '{ type: url, url: "http://example.com",'
        f' fetch: {{ headers: {{ X: "{{{{ .{variable}.MINE }}}}" }} }} }}'
    )
    text = f"name: p\nknowledge_bases:\n  - id: docs\n    sources:\n      - {source}\n"
    empty_cli.write({"lorebind.yaml": text})
    for value in (None, "of mine"):
        if value:
            monkeypatch.setenv("MINE", value)
        done = empty_cli("ask", ".", QUESTION)
        assert done.code == 2
        says = "source wants to read the variable MINE, and send it to example.com\n"
        assert f"lorebind.yaml:5:69: {says}" in done.err


def test_own_projects_are_trusted_with_their_yaml(empty_cli: Cli) -> None:
    """A project made by `init` may be edited freely; new code, hosts and links are asked for."""
    assert empty_cli("init").code == 0
    empty_cli.write(DOCUMENTS | {"hooks.py": HOOKS, ".env": "NAME=Kim\n"})
    written = (empty_cli.root / "lorebind.yaml").read_text()
    variable = 'id: w\nvars: {a: "{{ .env.NAME }}"}\ntasks: [{ id: t, prompt: x }]\n'
    edited = written.replace("top_k: 5", "top_k: 3, min_results: 2")
    empty_cli.write({"lorebind.yaml": edited, "workflows/w.yaml": variable})
    empty_cli.write({"agents/a.yaml": "resource: agent\nid: a\ninstructions: Be brief.\n"})
    assert empty_cli("ask", ".", QUESTION).err == ""
    for added, wants in {
        EXTENSION: "run hooks:Audit, in hooks.py",
        "embedders: [{ id: e, provider: openai }]\n": "send it to api.openai.com",
        "checkpointer: { path: ../threads.db }\n": "write a file outside",
    }.items():
        empty_cli.write({"lorebind.yaml": edited + added})
        done = empty_cli("ask", ".", QUESTION)
        assert (done.code, done.err.count(" wants to ")) == (2, 1)
        assert wants in done.err
    empty_cli.write({"lorebind.yaml": edited + EXTENSION})
    assert empty_cli("trust").code == 0
    assert empty_cli("ask", ".", QUESTION).err == ""
    assert (empty_cli.root / "was-run").exists()


def test_init_does_not_trust_what_was_there(empty_cli: Cli) -> None:
    """`init` in a folder of others whose files demand something does not trust the folder."""
    empty_cli.write(
        {
            "hooks.py": HOOKS,
            "workflows/evil.yaml": 'id: w\nvars: {a: "{{ .env.A }}"}\n'
            "tasks: [{ id: t, prompt: x }]\n",
        }
    )
    assert empty_cli("init").code == 0
    assert empty_cli("ask", ".", QUESTION).code == 2


def test_a_project_that_asks_for_nothing_needs_no_trust(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered immediately, even if trust cannot be stored."""
    done = cli("trust")
    assert (done.code, done.out) == (0, ". asks for nothing that needs trust\n")
    assert not list(home.iterdir())
    monkeypatch.setenv(trust.HOME, "relative")
    assert cli("ask", ".", QUESTION).code == 0


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 90_000, b'{"own": 1}']
)
def test_a_damaged_file_trusts_nothing(others_cli: Cli, home: Path, content: bytes) -> None:
    """Nor does a file that was written for another folder; and both can be written again."""
    others_cli("trust")
    (file,) = (home / "trusted").iterdir()
    file.write_bytes(content)
    assert others_cli("ask", ".", QUESTION).err == LINE + STOPPED.format(".")
    assert others_cli("trust", "--list").out == ""
    assert others_cli("trust").code == 0
    assert others_cli("ask", ".", QUESTION).code == 0


def test_trust_is_for_one_folder(others_cli: Cli, home: Path) -> None:
    """Trust of a project does not apply to a copy, even with the same trust file."""
    others_cli("trust")
    (file,) = (home / "trusted").iterdir()
    for name in ("hooks.py", "lorebind.yaml"):
        text = (others_cli.root / name).read_text()
        others_cli.write({f"copy/{name}": text})
    copy = read_demands(others_cli.root / "copy")
    assert copy.all == read_demands(others_cli.root).all
    assert not trust.is_trusted(copy)
    trust.trust(copy)
    (other,) = set((home / "trusted").iterdir()) - {file}
    other.write_bytes(file.read_bytes())
    assert not trust.is_trusted(copy)


def test_trust_is_private(others_cli: Cli, home: Path) -> None:
    """Only the owner can read and write the file, and no unfinished file is left."""
    others_cli("trust")
    (file,) = (home / "trusted").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert str(others_cli.root) not in file.name


def test_where_nothing_can_be_kept(
    others_cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message suggests a fix, and `ask` stays refused."""
    (home / "trusted").write_text("no folder")
    for arguments in (["trust"], ["trust", "--remove"]):
        done = others_cli(*arguments)
        assert done.code == 2
        assert f"{home / 'trusted'}, where trust is stored, cannot be used: " in done.err
    assert others_cli("ask", ".", QUESTION).code == 2
    assert others_cli("trust", "--list").out == ""
    monkeypatch.setenv(trust.HOME, "some/where")
    done = others_cli("trust")
    assert done.err == (
        "lorebind: some/where is not an absolute path; set LOREBIND_HOME to an absolute path\n"
    )


def test_the_folder_is_the_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder is below an absolute XDG_STATE_HOME, else at home, or an error is raised."""
    if sys.platform in ("win32", "darwin"):
        pytest.skip("has a convention of its own")
    monkeypatch.delenv(trust.HOME)
    monkeypatch.setenv("HOME", str(tmp_path))
    for state, expected in {
        str(tmp_path / "state"): tmp_path / "state",
        "state": tmp_path / ".local/state",
        "": tmp_path / ".local/state",
    }.items():
        monkeypatch.setenv("XDG_STATE_HOME", state)
        assert trust._state_folder() == expected / "lorebind" / "trusted"
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(UsageError, match="is not an absolute path"):
        trust._state_folder()


def test_many_at_once_lose_nothing(tmp_path: Path, forked: ForkedPython) -> None:
    """Concurrent processes that trust projects, one of them all the time, lose no entry."""
    program = (
        "import sys\nfrom lorebind import trust\n"
        "from lorebind_config.trust import read_demands\n"
        "for path in sys.argv[1:] * 20: trust.trust(read_demands(path))\n"
    )
    folders = [tmp_path / str(number) for number in range(6)]
    for folder in folders:
        folder.mkdir()
        (folder / "lorebind.yaml").write_text(PROJECT + EXTENSION)
    started = [
        subprocess.Popen([forked.commands / "python", "-c", program, *map(str, some)])
        for some in (folders[:3], folders[2:4], folders[3:])
    ]
    assert [process.wait(120) for process in started] == [0, 0, 0]
    assert trust.trusted_folders() == [str(folder) for folder in folders]
    assert all(trust.is_trusted(read_demands(folder)) for folder in folders)
