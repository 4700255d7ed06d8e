"""Behavior of commands on a server that has no counterpart in a folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lorebind import Project, tenant
from lorebind.remote import RemoteProject
from lorebind.server.state.tables import open_state
from lorebind.server.state.tokens import Tokens
from lorebind_config.errors import LorebindError, Suggestion
from lorebind_config.reading.loading import load_project
from lorebind_knowledge.events import Event, Extension
from tests.app.forked_python import CONSTANTS, Forked, ForkedPython
from tests.app.helpers import Cli
from tests.app.test_exports import in_a_fresh_interpreter

from .conftest import PROJECT, Process, problem, serving, write_project
from .test_runs import BATCH, DOCUMENTS, Slow

NOTES = """\
knowledge_bases:
  - id: notes
    description: Mine
    sources: [{ type: inline, documents: [{ id: owls, text: Owls fly at night. }] }]
"""

TELL = {"id": "tell", "tasks": [{"id": "say", "prompt": "x", "knowledge": [{"id": "handbook"}]}]}

UNCLOSED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""httpcore leaves the socket of an unused Unix address to the garbage collector."""


class Shop:
    """A served project, and the command line in another folder that uses its server."""

    def __init__(self, cli: Cli, server: Process, folder: Path) -> None:
        self.cli, self.server, self.folder = cli, server, folder
        self.url = f"unix:{server.socket}"

    def __call__(self, *arguments: str) -> Any:
        return self.cli(*arguments, "--server", self.url)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path]]:
    folder = write_project(tmp_path_factory.mktemp("shop"), PROJECT | {"workflows": [TELL]})
    with serving(folder) as server:
        yield server, folder


@pytest.fixture
def shop(empty_cli: Cli, served: tuple[Process, Path]) -> Shop:
    return Shop(empty_cli, *served)


def test_the_variable_names_the_server(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOREBIND_SERVER works like the option, and --project overrides the variable."""
    monkeypatch.setenv("LOREBIND_SERVER", shop.url)
    assert shop.cli("knowledge", "get", "handbook").code == 0
    assert shop.cli("knowledge", "get", "handbook", "-p", ".").code == 2
    done = shop("knowledge", "list", "--project", ".")
    assert (done.code, done.out) == (2, "")
    assert done.err == "lorebind: --server and --project name two projects; omit one of them\n"


@pytest.mark.parametrize(
    "command",
    [
        "doctor",
        "eval docs --queries q --qrels r",
        "token list",
        "token revoke x",
        "token create x --rights read",
    ],
)
def test_a_command_that_cannot_use_a_server(
    empty_cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """It does not use the data of this machine instead, unless --project names a folder."""
    empty_cli.write({"lorebind.yaml": "name: shop\n"})
    monkeypatch.setenv("LOREBIND_SERVER", "http://knowledge.test")
    refused = empty_cli(*command.split())
    assert (refused.code, refused.out) == (2, "")
    assert "cannot use the server in LOREBIND_SERVER; name a folder" in refused.err
    assert "LOREBIND_SERVER" not in empty_cli(*command.split(), "--project", ".").err


@pytest.mark.parametrize(
    ("url", "code", "reason"),
    [
        ("ftp://x", 2, "is not a valid server URL: it must begin with http://, https:// or unix:"),
        ("http://", 2, "is not a valid server URL"),
        ("http://x:port", 2, "is not a valid server URL"),
        ("http://x/?a=b", 2, "is not a valid server URL"),
        ("unix:", 2, "the path of the socket is missing"),
        ("http://me:hidden@x", 2, "a server's URL must not contain a password"),
        ("unix:/none/s", 1, "the server at unix:/none/s cannot be reached: "),
    ],
)
@UNCLOSED
def test_addresses_that_lead_nowhere(empty_cli: Cli, url: str, code: int, reason: str) -> None:
    """An invalid URL is wrong usage; an unreachable server is a failure with one line."""
    done = empty_cli("knowledge", "list", "--server", url)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert reason in done.err
    assert "hidden" not in done.err


def test_apply(shop: Shop) -> None:
    """Knowledge bases are created and replaced, and equal ones stay unchanged."""
    shop.cli.write({"new.yaml": NOTES})
    apply = ["knowledge", "apply", "-f", "new.yaml", "-o", "json"]
    dry = json.loads(shop(*apply, "--dry-run").out)
    assert (dry["changes"][0]["action"], dry["written"]) == ("created", False)
    assert "+description: Mine\n" in dry["diff"]
    assert shop("knowledge", "get", "notes").code == 2
    assert actions(shop(*apply).out) == {"notes": "created"}
    assert actions(shop(*apply).out) == {"notes": "unchanged"}
    shop.cli.write({"new.yaml": NOTES.replace("Mine", "Ours")})
    assert "-description: Mine\n+description: Ours\n" in shop(*apply, "--dry-run").out.replace(
        "\\n", "\n"
    )
    assert actions(shop(*apply).out) == {"notes": "updated"}
    done = shop("knowledge", "list")
    assert done.out.splitlines()[-1].split() == ["notes", "0", "0", "never", "Ours"]
    assert shop("ingest", "notes").code == 0
    answer = json.loads(shop("query", "notes", "-q", "owls", "-o", "json").out)
    assert answer["matches"][0]["metadata"]["uri"] == "inline:owls"
    # The output can be applied again.
    shop.cli.write({"new.yaml": shop("knowledge", "get", "notes").out})
    assert actions(shop(*apply).out) == {"notes": "unchanged"}


def actions(out: str) -> dict[str, str]:
    return {change["id"]: change["action"] for change in json.loads(out)["changes"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("embedders: [{ id: w, provider: hashing }]\n" + NOTES, "new.yaml: the server's YAML"),
        ("vector_dbs: [{ id: w, type: sqlite }]\n", "the server's YAML declares its vector_dbs"),
        ("workflow: w\n" + NOTES, "the server's YAML declares the knowledge bases of workflow 'w'"),
        ("knowledge_bases: [{ id: a, ip: b }]\n", "new.yaml:1:28: unknown key 'ip'"),
        (
            "knowledge_bases:\n- id: a\n  sources: [{ type: file_glob, path: '*' }]\n",
            "new.yaml:3:15: source type 'file_glob' is not possible here",
        ),
        (
            NOTES + "    retrieval: { render: notes.txt }\n",
            "'notes.txt' is not possible here, it would read files of the server",
        ),
        (
            NOTES.replace("notes", "handbook"),
            "knowledge base 'handbook' is declared at lorebind.yaml:",
        ),
    ],
)
def test_what_cannot_be_applied(shop: Shop, text: str, reason: str) -> None:
    """Problems are reported with their location in the file, and with exit code 2."""
    shop.cli.write({"new.yaml": text})
    done = shop("knowledge", "apply", "-f", "new.yaml")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert reason in done.err


def test_what_tenants_made_is_no_leftover(shop: Shop, tmp_path: Path) -> None:
    """Neither `purge`, local or on the server, nor `doctor` takes it for undeclared."""
    shop.cli.write({"new.yaml": NOTES.replace("notes", "kept")})
    acme = ["--tenant", "acme"]
    assert shop("knowledge", "apply", "-f", "new.yaml", *acme).code == 0
    assert shop("ingest", "kept", *acme).code == 0
    with Project.load(shop.folder) as project:
        assert project.purge() == []
        assert project.purge(dry_run=False) == []
        assert "undeclared" not in str(project.doctor())
    assert json.loads(shop("knowledge", "purge", "--yes", "-o", "json").out) == {"removed": []}
    assert shop("query", "kept", "-q", "owls", *acme).code == 0
    # Only the tenant that created it has it.
    with Project.load(shop.folder) as project, tenant("other"):
        other = project.with_knowledge_bases([yaml.safe_load(NOTES)["knowledge_bases"][0]])
        other.ingest("notes")
    assert [kb["tenant"] for kb in undeclared(shop("knowledge", "purge", "-o", "json").out)] == [
        "other"
    ]
    # Without the server's state, it would count as leftover data.
    alone = tmp_path / "alone"
    shutil.copytree(shop.folder, alone)
    for file in (alone / ".lorebind").glob("server.db*"):
        file.unlink()
    with Project.load(alone) as project:
        assert ("kept", "acme") in [(kb.kb_id, kb.tenant) for kb in project.purge()]
    assert not (alone / ".lorebind" / "server.db").exists()
    assert shop("knowledge", "purge", "--yes").code == 0
    assert undeclared(shop("knowledge", "purge", "-o", "json").out) == []


def undeclared(out: str) -> Any:
    return json.loads(out)["undeclared"]


def test_tokens_and_rights(
    empty_cli: Cli, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is read from its variable; each refusal is one line."""
    folder = write_project(tmp_path_factory.mktemp("closed"))
    database = open_state(load_project(folder))
    _, reader = Tokens(database).create("reader", "read")
    _, both = Tokens(database).create("both", "write", ["a", "b"])
    database.close()
    with serving_with(folder, reader) as server:
        shop = Shop(empty_cli, server, folder)

        def refused(code: int, *arguments: str) -> str:
            done = shop(*arguments)
            assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
            return str(done.err)

        assert "set LOREBIND_TOKEN" in refused(1, "knowledge", "list")
        monkeypatch.setenv("LOREBIND_TOKEN", "wrong")
        assert "set LOREBIND_TOKEN" in refused(1, "knowledge", "list")
        monkeypatch.setenv("LOREBIND_TOKEN", "hid\nden")
        assert "LOREBIND_TOKEN cannot be sent" in refused(2, "knowledge", "list")
        monkeypatch.setenv("LOREBIND_TOKEN", reader)
        assert shop("knowledge", "list").code == 0
        assert "this needs 'write'" in refused(1, "knowledge", "delete", "handbook", "--yes")
        assert "this needs 'admin'" in refused(1, "knowledge", "purge")
        assert "not for that tenant" in refused(1, "knowledge", "list", "--tenant", "a")
        monkeypatch.setenv("LOREBIND_TOKEN", both)
        assert "X-Tenant-ID" in refused(2, "knowledge", "list")
        assert shop("knowledge", "list", "--tenant", "b").code == 0


def serving_with(folder: Path, token: str) -> Any:
    return serving(folder, LOREBIND_TEST_TOKEN=token)


def test_it_waits_as_the_server_asks(
    empty_cli: Cli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """More requests than the server allows per second take longer, but cause no error."""
    slowly = PROJECT | {"server": {"rate_limit": {"per_second": 1, "burst": 2}}}
    folder = write_project(tmp_path_factory.mktemp("limited"), slowly)
    with serving(folder) as server:
        done = Shop(empty_cli, server, folder)("knowledge", "list", "-o", "json")
        assert (done.code, done.err) == (0, "")


class Recorder(Extension):
    """Records the events that progress bars use."""

    def __init__(self) -> None:
        self.read, self.embedded = 0, 0
        self.heard = threading.Event()

    def ingest_chunked(self, event: Event) -> None:
        self.read += 1
        self.heard.set()

    def ingest_embedded(self, event: Event) -> None:
        self.embedded += event.data["chunks"]


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path / "slow")


@UNCLOSED
def test_an_ingest_survives_its_server(slow: Slow, tmp_path: Path) -> None:
    """If the server is killed and restarted, the waiting command gets its events and report."""
    recorder, endings = Recorder(), list[str]()
    address = tmp_path / "address"
    outcome: list[Any] = []
    del slow.environ[CONSTANTS]  # the client has the real server's time to find the new one

    def ingest() -> None:
        with RemoteProject(
            f"unix:{address}", extensions=[recorder], tell_end=endings.append
        ) as project:
            outcome.append(project.knowledge_base("texts").ingest())

    watching = threading.Thread(target=ingest)
    with serving(slow.folder, **slow.environ) as server:
        address.symlink_to(server.socket)
        watching.start()
        slow.let_through(2)
        slow.wait_for(3 * BATCH)
        deadline = time.monotonic() + 60
        while recorder.embedded < 2 * BATCH:  # a killed server cannot send its last events
            assert time.monotonic() < deadline
            time.sleep(0.02)
        server.process.kill()
        server.process.wait(60)
    recorder.heard.clear()
    address.unlink()
    with serving(slow.folder, **slow.environ) as server:
        address.symlink_to(server.socket)
        assert recorder.heard.wait(60)
        slow.let_through(100)
        watching.join(60)
    (report,) = outcome
    assert (report.status, report.chunks["total"]) == ("completed", DOCUMENTS)
    assert recorder.embedded >= DOCUMENTS
    assert recorder.read >= DOCUMENTS
    goes_on, ended = endings
    assert report.run_id in goes_on
    assert ended == ""


def test_an_interrupted_command_leaves_the_run(slow: Slow, forked: ForkedPython) -> None:
    """Ctrl-C ends the command with 130, and its message says where the run continues."""
    with serving(slow.folder, **slow.environ) as server:
        url = f"unix:{server.socket}"
        command = [str(forked.commands / "lorebind"), "ingest", "texts", "--server", url]
        process = Forked(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
        )
        slow.wait_for(BATCH)
        with server.client() as api:
            (run,) = api.get("/knowledge-bases/texts/runs").json()["items"]
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            look = f"check it with: lorebind knowledge stats texts --server {url}\n"
            assert process.returncode == 130
            assert err == (
                "lorebind: interrupted; finished work is kept, and run "
                f"{run['run_id']} continues on the server; {look}"
            )
            slow.let_through(100)
            where = f"/knowledge-bases/texts/runs/{run['run_id']}"
            with api.stream("GET", f"{where}/events") as events:
                assert "event: end" in list(events.iter_lines())
            assert api.get(where).json()["status"] == "completed"


def test_add_waits_for_another_ingest(slow: Slow, empty_cli: Cli) -> None:
    """The command prints the report of its own run, as it does in a folder."""
    empty_cli.write({"note.md": "# Note\n\nThe shop is closed.\n"})
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        assert api.post("/knowledge-bases/texts/ingest").status_code == 202
        slow.wait_for(BATCH)
        later = threading.Timer(1.5, slow.let_through, [100])  # after the answer that it waits
        later.start()
        shop = Shop(empty_cli, server, slow.folder)
        done = shop("knowledge", "add", "texts", "note.md", "-o", "json")
        later.join()
        assert (done.code, done.err) == (0, "")
        report = json.loads(done.out)
        assert (report["status"], report["documents"]["added"]) == ("completed", 1)
        assert [source["source"] for source in report["sources"]] == ["added"]
        again = shop("knowledge", "add", "texts", "note.md")
        here = empty_cli("knowledge", "add", "texts", "note.md", "-p", str(slow.folder))
        texts = [re.sub(r"in \d+\.\d s", "in 0 s", done.out) for done in (again, here)]
        assert texts[0] == texts[1]


def test_a_run_that_others_cancel(slow: Slow) -> None:
    """If others cancel the run, the command fails, because there is no report."""
    raised: list[LorebindError] = []

    def ingest(url: str) -> None:
        with RemoteProject(url) as project, pytest.raises(LorebindError) as error:
            project.knowledge_base("texts").ingest()
        raised.append(error.value)

    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        watching = threading.Thread(target=ingest, args=[f"unix:{server.socket}"])
        watching.start()
        slow.wait_for(BATCH)
        (run,) = api.get("/knowledge-bases/texts/runs").json()["items"]
        slow.let_through(2)
        assert api.delete(f"/knowledge-bases/texts/runs/{run['run_id']}").status_code == 200
        slow.let_through(100)
        watching.join(60)
    assert str(raised[0]) == f"run {run['run_id']} of 'texts' was cancelled"


def test_commands_in_hints_work_as_shown(shop: Shop) -> None:
    """Suggested commands name the server and the tenant, also in errors stored with a thread."""
    whose = ["--tenant", "a b"]
    options = f"--server {shop.url} --tenant 'a b'"
    failed = shop("run", "tell", "-t", "t1", *whose)
    ingest, resume = hints(failed.err)
    assert ingest == f"lorebind knowledge ingest handbook --tenant 'a b' --server {shop.url}"
    assert resume == f"lorebind run tell --thread t1 --resume {options}"
    for command in ("threads tell", "history tell -t t1"):
        stored = shop("workflow", *command.split(), *whose, "-o", "json")
        assert f"{ingest}" in stored.out
    for command in (ingest, resume):
        assert shop.cli(*shlex.split(command)[1:]).code == 0
    (begin,) = hints(shop("workflow", "threads", "tell", "--tenant", "none").out)
    assert begin == f"lorebind run tell --server {shop.url} --tenant none"
    (listing,) = hints(shop("run", "tell", "--resume", *whose).err)
    assert listing == f"lorebind workflow threads tell {options}"
    (ingest,) = hints(shop("query", "handbook", "-q", "x", "--tenant", "none").err)
    assert ingest == f"lorebind knowledge ingest handbook --tenant none --server {shop.url}"


def hints(text: str) -> list[str]:
    """Return the commands in a message."""
    return re.findall(r"lorebind (?:knowledge|run|workflow) [^;`\n]*", text)


def test_options_are_added_to_commands() -> None:
    """If a command already names a tenant, the option is not repeated."""
    ingest = Suggestion("lorebind knowledge ingest docs")
    assert ingest.on_server("unix:/s", None) == f"{ingest} --server unix:/s"
    assert ingest.on_server("unix:/s", "a b") == f"{ingest} --server unix:/s --tenant 'a b'"
    whose = Suggestion(f"{ingest} --tenant 'o'\"'\"'hara'")
    assert whose.on_server("unix:/s", "acme") == f"{whose} --server unix:/s"


@pytest.mark.parametrize("command", ["knowledge list", "knowledge export", "bindings explain"])
def test_what_is_not_asked_for_is_not_imported(tmp_path: Path, command: str) -> None:
    """A command for a folder imports no code for server access or serving."""
    write_project(tmp_path)
    code = f"""
import contextlib, io
sys.argv = ["lorebind", *{command.split()!r}, "-p", {str(tmp_path)!r}]
from lorebind.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    try:
        main()
    except SystemExit as done:
        assert not done.code
seen[:] = [n for n in sys.modules if n.split(".")[0] in ("httpx", "fastapi") or "remote" in n]
"""
    assert in_a_fresh_interpreter(code).endswith(" []")


def test_a_plan_takes_the_time_that_it_needs(shop: Shop) -> None:
    """The same plan is sent as JSON, or as an event that proxies and the time limit allow."""
    with shop.server.client() as api:
        plan = api.post("/knowledge-bases/handbook/plan", json={"strategy": "replace"}).json()
        headers = {"Accept": "text/event-stream"}
        with api.stream("POST", "/knowledge-bases/handbook/plan", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = list(answer.iter_lines())
        assert lines[0] == "event: result"
        assert json.loads(lines[1].removeprefix("data: ")).keys() == plan.keys()
        wrong = {"inputs": {"a": 1}}
        with api.stream(
            "POST", "/knowledge-bases/handbook/plan", json=wrong, headers=headers
        ) as answer:
            assert next(answer.iter_lines()) == "event: error"
        refused = api.post("/knowledge-bases/handbook/plan", json=wrong)
        assert problem(refused) == (422, "invalid_request")
        unknown = api.post("/knowledge-bases/none/plan", headers=headers)
        assert problem(unknown) == (404, "not_found")
