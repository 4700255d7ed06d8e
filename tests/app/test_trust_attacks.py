"""Attacks on trust: what runs is what was shown, and what is new is asked for."""

from __future__ import annotations

import os
import pty
import py_compile
import re
import select
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from .forked_python import ForkedPython
from .helpers import DOCUMENTS, EXTENSION, HOOKS, PROJECT, Cli
from .test_trust import QUESTION

pytestmark = pytest.mark.usefixtures("home")

EVIL = HOOKS.replace("was-run", "was-evil")
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def shop(others_cli: Cli) -> Cli:
    """Return the command line in a project of others, which its user trusts."""
    assert others_cli("trust").code == 0
    return others_cli


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that is not the project's."""
    return tmp_path_factory.mktemp("outside")


def package(root: Path) -> None:
    (root / "hooks").mkdir()
    (root / "hooks" / "__init__.py").write_text(EVIL)


def compiled_package(root: Path) -> None:
    (root / "hooks").mkdir()
    (root / "evil.py").write_text(EVIL)
    py_compile.compile(str(root / "evil.py"), str(root / "hooks" / "__init__.pyc"))


def extension(root: Path) -> None:
    import numpy.random._common as compiled

    shutil.copy(Path(str(compiled.__file__)), root / f"hooks{SUFFIX}")


def stable_extension(root: Path) -> None:
    extension(root)
    os.rename(root / f"hooks{SUFFIX}", root / "hooks.abi3.so")


def unchecked_pyc(root: Path) -> None:
    from importlib.util import cache_from_source

    (root / "evil.py").write_text(EVIL)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    cached = cache_from_source(str(root / "hooks.py"))
    py_compile.compile(
        str(root / "evil.py"), cached, dfile=str(root / "hooks.py"), invalidation_mode=mode
    )


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (package, 2),
        (compiled_package, 0),
        (extension, 0),
        (stable_extension, 0),
        (unchecked_pyc, 0),
    ],
)
def test_only_the_file_that_was_shown_is_run(
    shop: Cli, attack: Callable[[Path], None], code: int
) -> None:
    """Nothing in the folder shadows a trusted module; two sources of one name are refused."""
    attack(shop.root)
    done = shop("ask", ".", QUESTION)
    assert done.code == code, done.err
    assert ("'hooks:Audit' is ambiguous: hooks.py and hooks/__init__.py exist" in done.err) == (
        code == 2
    )
    assert (shop.root / "was-run").exists() == (code == 0)
    assert not (shop.root / "was-evil").exists()


IMPORTING = HOOKS + "\n\ndef later():\n    from .tools import helpers\n"


def test_what_it_imports_belongs_to_it(shop: Cli) -> None:
    """A change of a module that a trusted one imports relatively, also inside a function, asks."""
    files = {"hooks.py": IMPORTING, "tools/__init__.py": "", "tools/helpers.py": "from . import b"}
    shop.write(files | {"tools/b.py": ""})
    assert (
        "in hooks.py, with tools/__init__.py, tools/b.py, tools/helpers.py\n" in shop("trust").out
    )
    assert shop("ask", ".", QUESTION).code == 0
    for name in ("tools/__init__.py", "tools/helpers.py", "tools/b.py"):
        shop.write({name: EVIL})
        assert shop("ask", ".", QUESTION).code == 2
        shop.write({name: files.get(name, "")})
        assert shop("ask", ".", QUESTION).code == 0
    shop.write({"tools/other.py": EVIL})
    assert shop("ask", ".", QUESTION).code == 0


@pytest.mark.parametrize(
    "importing",
    [
        'import importlib; importlib.import_module(".hidden", __package__)',
        "exec('from . import hidden')",
        "from .tools import *",
    ],
)
def test_what_was_not_shown_is_refused(shop: Cli, importing: str) -> None:
    """A module whose import cannot be found without running code is refused, with a hint."""
    shop.write({"hooks.py": f"{HOOKS}\n{importing}\n", "hidden.py": EVIL})
    shop.write({"tools/__init__.py": "__all__ = ['hidden']", "tools/hidden.py": EVIL})
    assert shop("trust").code == 0
    done = shop("ask", ".", QUESTION)
    assert done.code == 2
    assert "hidden.py was not shown when trust was asked for; import it with a st" in done.err
    assert not (shop.root / "was-evil").exists()


SENDING = """\
name: p
embedders:
  - id: far
    provider: openai
    config: { base_url: "{{ .env.BASE }}/v1" }
    api_key: "{{ .env.KEY }}"
"""


def consent(cli: Cli) -> str:
    done = cli("ask", ".", QUESTION)
    assert done.code == 2
    return done.err


def test_a_key_goes_only_to_the_host_that_was_shown(
    empty_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `.env` that redirects an endpoint is asked for; its values and others are not shown."""
    empty_cli.write({"lorebind.yaml": SENDING, ".env": "BASE=https://good.example\nKEY=sesame\n"})
    says = "embedder 'far' wants to read the variable KEY, and send it to "
    assert f"{says}good.example\n" in consent(empty_cli)
    assert empty_cli("trust").code == 0
    empty_cli.write({".env": "BASE=https://me:pass@evil.example:8443\nKEY=sesame\n"})
    printed = consent(empty_cli)
    assert f"{says}evil.example:8443\n" in printed
    monkeypatch.setenv("BASE", "https://private.example")
    assert f"{says}the host in the variable BASE of your environment\n" in consent(empty_cli)
    assert not re.search("sesame|pass|private", printed + consent(empty_cli))
    monkeypatch.delenv("BASE")
    empty_cli.write({".env": "KEY=sesame\n"})
    assert f"{says}the host in the variable BASE, which is not set\n" in consent(empty_cli)


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ("vector_dbs: [{ id: p, type: pgvector, config: { dsn: '{{ .env.DSN }}' } }]", "h:5432"),
        ("vector_dbs: [{ id: q, type: qdrant, config: { url: 'http://q.example:6333', auth: "
         "{ api_key: '{{ .env.KEY }}' } } }]", "q.example:6333"),
        ("models: [{ id: m, provider: openai, model: x, api_key: '{{ .env.KEY }}' }]",
         "the hosts of 'openai'"),
        ("models: [{ id: m, provider: openai, model: x, api_key: '{{ .env.KEY }}', config: "
         "{ base_url: 'https://a@b.example/v1' } }]", "b.example"),
        ("checkpointer: { type: postgres, dsn: '{{ .env.WORDS }}' }", "w.example"),
        ("server: { state: { dsn: '{{ .env.TRICK }}' } }", "good, evil.example"),
        ("server: { state: { dsn: '{{ .env.ENCODED }}' } }", "good, evil.example"),
        ("checkpointer: { type: postgres, dsn: '{{ .env.SPACED }}' }", "evil.example"),
        ("checkpointer: { type: postgres, dsn: '{{ .env.QUOTED }}' }", "evil.example"),
        ("checkpointer: { type: postgres, dsn: '{{ .env.JOINED }}' }", "evil.example"),
    ],
)  # fmt: skip
def test_hosts_are_found_in_all_parts(empty_cli: Cli, settings: str, host: str) -> None:
    """A variable is shown with the host of its own part, which a DSN names in several ways."""
    project = PROJECT.replace("knowledge_bases:", f"{settings}\nknowledge_bases:", 1)
    if settings.startswith("vector_dbs"):
        project = re.sub(r"(?s)(?<=\n)vector_dbs:.*?\n(?=vector_dbs)", "", project)
    variables = (
        "DSN=postgresql://me:sesame@h:5432/db\nWORDS=host=w.example password=sesame\n"
        "TRICK=postgresql://good/db?host=evil.example\nKEY=sesame\n"
        "ENCODED=postgresql://good/db?%68ost=evil.example\nSPACED=hostaddr = evil.example\n"
        "QUOTED=\"host = 'evil.example'\"\nJOINED=\"user='me'host=evil.example\"\n"
    )
    empty_cli.write({"lorebind.yaml": project, ".env": variables})
    printed = consent(empty_cli)
    assert f", and send it to {host}\n" in printed
    assert "sesame" not in printed


def test_hosts_without_a_variable_are_asked_for(empty_cli: Cli) -> None:
    """Documents are sent to the server of a database, also if its catalog has a variable."""
    project = """\
name: p
vector_dbs:
  - id: q
    type: qdrant
    config: { url: "http://q.example" }
    catalog: { dsn: "{{ .env.DSN }}" }
"""
    empty_cli.write({"lorebind.yaml": project, ".env": "DSN=postgresql://c.example/db\n"})
    printed = consent(empty_cli)
    assert "wants to read the variable DSN, and send it to c.example\n" in printed
    assert "vector database 'q' wants to reach q.example\n" in printed


def test_values_that_go_through_a_workflow_are_shown_with_the_host(empty_cli: Cli) -> None:
    """A variable in `vars` that an address of a source contains is not sent without a word."""
    workflow = (
        "id: w\nvars: { key: '{{ .env.KEY }}' }\ntasks: [{ id: t, prompt: x }]\n"
        "knowledge_bases: [{ id: k, sources: [{ type: url,"
        " url: 'https://evil.example/{{ .workflow.vars.key }}' }] }]\n"
    )
    empty_cli.write({"lorebind.yaml": PROJECT, "workflows/w.yaml": workflow})
    printed = consent(empty_cli)
    assert "read {{ .workflow.vars.key }}, and send it to evil.example\n" in printed


@pytest.mark.parametrize(
    ("settings", "wants"),
    [
        ("embedders: [{ id: e, provider: local, config: { model_path: PATH } }]", "read"),
        ("vector_dbs: [{ id: v, type: sqlite, config: { path: PATH } }]", "write"),
        ("vector_dbs: [{ id: v, type: qdrant, config: { path: PATH } }]", "write"),
        ("vector_dbs: [{ id: v, type: memory }]\nserver: { state: { path: PATH } }", "write"),
        ("models: [{ id: m, provider: extractive,"
         " tokenizer: { provider: huggingface, path: PATH } }]", "read"),
        ("embedders: [{ id: e, provider: fastembed, model: m, cache_dir: PATH }]", "write"),
        ("knowledge_bases: [{ id: docs, sources: [{ type: file_glob, path: '*' }], retrieval: "
         "{ rerank: { provider: onnx, model_path: PATH, tokenizer_path: x } } }]", "read"),
        ("knowledge_bases: [{ id: docs, sources: [{ type: file_glob, path: '*' }], retrieval: "
         "{ rerank: { provider: onnx, model_path: x, tokenizer_path: PATH } } }]", "read"),
        ("embedders: [{ id: e, provider: langchain, class: 'yaml:Loader', config: { at: PATH } }]",
         "use"),
    ],
)  # fmt: skip
def test_paths_that_leave_the_folder_are_asked_for(
    empty_cli: Cli, outside: Path, settings: str, wants: str
) -> None:
    """An absolute path needs trust, and so does one that leaves through a link or a variable."""
    (empty_cli.root / "link").symlink_to(outside)
    if "knowledge_bases" not in settings:
        settings += "\nknowledge_bases: [{ id: docs, sources: [{ type: file_glob, path: '*' }] }]"
    for path in (str(outside), "link/x", "'{{ .env.AT }}'", "x"):
        empty_cli.write(
            {"lorebind.yaml": f"name: p\n{settings.replace('PATH', path)}\n", ".env": "AT=../o"}
        )
        done = empty_cli("trust", ".")
        assert done.code == 0, done.err
        listed = f"wants to {wants} a file outside the project folder: " in done.out
        if wants == "use" and path == "link/x":
            continue  # the meaning of settings of code is not known
        assert listed == (path != "x"), (path, done.out)


@pytest.mark.parametrize("is_own", [True, False])
def test_a_path_of_the_users_variables_is_asked_for(
    empty_cli: Cli, outside: Path, monkeypatch: pytest.MonkeyPatch, *, is_own: bool
) -> None:
    """A path that a variable of the process leads out is shown as it is written, also to `init`."""
    if is_own:
        assert empty_cli("init").code == 0
    database = "vector_dbs: [{ id: v, type: sqlite, config: { path: '{{ .env.AT }}/x.db' } }]\n"
    bases = "knowledge_bases: [{ id: docs, sources: [{ type: file_glob, path: '*.md' }] }]\n"
    empty_cli.write(DOCUMENTS | {"lorebind.yaml": f"name: p\n{database}{bases}"})
    monkeypatch.setenv("AT", str(outside))
    says = "wants to write a file outside the project folder: {{ .env.AT }}/x.db\n"
    assert says in consent(empty_cli)
    assert not list(outside.iterdir())
    monkeypatch.setenv("AT", "data")
    assert says not in empty_cli("ask", ".", QUESTION).err
    monkeypatch.delenv("AT")
    assert says not in empty_cli("ask", ".", QUESTION).err


def linked_folder(root: Path, outside: Path) -> None:
    (root / ".lorebind").symlink_to(outside)


def dangling_folder(root: Path, outside: Path) -> None:
    (root / ".lorebind").symlink_to(outside / "new")


def linked_file(root: Path, outside: Path) -> None:
    (root / ".lorebind").mkdir()
    (root / ".lorebind" / "lorebind.db-wal").symlink_to(outside / "mine.txt")


@pytest.mark.parametrize("attack", [linked_folder, dangling_folder, linked_file])
@pytest.mark.parametrize("is_project", [True, False])
def test_data_is_written_into_the_folder(
    empty_cli: Cli, outside: Path, attack: Callable[[Path, Path], None], is_project: bool
) -> None:
    """A `.lorebind` that leads elsewhere is asked for, also in a folder without a project."""
    empty_cli.write(DOCUMENTS | ({"lorebind.yaml": PROJECT} if is_project else {}))
    attack(empty_cli.root, outside)
    printed = consent(empty_cli)
    assert printed.startswith(
        f".lorebind: the project wants to write a file outside the project folder: {outside}"
    )
    assert not list(outside.iterdir())
    assert empty_cli("trust").code == 0
    if attack is linked_folder:
        assert empty_cli("ask", ".", QUESTION).code == 0
        assert (outside / "lorebind.db").exists()


def test_an_env_file_elsewhere_is_asked_for(empty_cli: Cli) -> None:
    """A `.env` that is a link reads the variables of another project."""
    (empty_cli.root.parent / "their.env").write_text("KEY=sesame\n")
    (empty_cli.root / ".env").symlink_to(empty_cli.root.parent / "their.env")
    empty_cli.write({"lorebind.yaml": PROJECT})
    assert consent(empty_cli).startswith(".env: the project wants to read a file outside the proj")


class Terminal:
    """A command in a terminal, whose standard output is a pipe."""

    def __init__(self, forked: ForkedPython, root: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self._running = subprocess.Popen(
            [forked.commands / "lorebind", *arguments],
            cwd=root,
            stdin=theirs,
            stderr=theirs,
            stdout=subprocess.PIPE,
            text=True,
        )
        os.close(theirs)
        self.output = ""

    def until(self, text: str) -> None:
        while text not in self.output:
            ready, _, _ = select.select([self._ours], [], [], 60)
            assert ready, self.output
            self.output += os.read(self._ours, 10_000).decode().replace("\r\n", "\n")

    def type(self, line: str) -> tuple[int, str]:
        """Answer, and return the exit code and the output."""
        os.write(self._ours, f"{line}\n".encode())
        out, _ = self._running.communicate(timeout=120)
        try:
            while more := os.read(self._ours, 10_000):
                self.output += more.decode().replace("\r\n", "\n")
        except OSError:  # the terminal is closed
            pass
        os.close(self._ours)
        return self._running.returncode, out


def test_a_terminal_asks(others_cli: Cli, forked: ForkedPython) -> None:
    """No is an error, yes is remembered, and a pipe is refused with the command to run."""
    terminal = Terminal(forked, others_cli.root, "ask", ".", QUESTION)
    terminal.until("[y/N] ")
    assert "wants to run hooks:Audit, in hooks.py\nDo you trust" in terminal.output
    assert terminal.type("")[0] == 2
    assert "the project is not trusted, and nothing of it was run\n" in terminal.output
    assert not (others_cli.root / "was-run").exists()
    terminal = Terminal(forked, others_cli.root, "ask", ".", QUESTION, "-o", "json")
    terminal.until("[y/N] ")
    code, out = terminal.type("y")
    assert (code, out[0]) == (0, "{")
    assert (others_cli.root / "was-run").exists()
    again = Terminal(forked, others_cli.root, "ask", ".", QUESTION)
    assert again.type("")[0] == 0
    assert "trust" not in again.output


def test_files_that_change_while_it_asks_have_no_effect(
    others_cli: Cli, forked: ForkedPython
) -> None:
    """The modules are run as they were shown, whatever the files contain after the answer."""
    terminal = Terminal(forked, others_cli.root, "ask", ".", QUESTION)
    terminal.until("[y/N] ")
    (others_cli.root / "hooks.py").write_text(EVIL)
    (others_cli.root / "more.py").write_text(EVIL)
    (others_cli.root / "lorebind.yaml").write_text(PROJECT + EXTENSION.replace("hooks:", "more:"))
    assert terminal.type("y")[0] == 0
    assert (others_cli.root / "was-run").exists()
    assert not (others_cli.root / "was-evil").exists()
    terminal = Terminal(forked, others_cli.root, "chat")
    terminal.until("[y/N] ")
    assert "wants to run more:Audit, in more.py\nDo you trust" in terminal.output
    assert terminal.type("n")[0] == 2
