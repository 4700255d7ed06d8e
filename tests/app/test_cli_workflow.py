"""`lorebind run` with threads, and `lorebind workflow`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lorebind import event_schema
from lorebind_bindings.workflow.events import RunEvent

from .forked_python import ForkedPython
from .helpers import Cli
from .triage import FILES

REFUND = ["run", "triage", "-i", "ticket=refund", "--thread", "t1"]
PAY = ["run", "triage", "--thread", "t1", "--resume", "--answer", 'approve={"ok": true}']


@pytest.fixture
def cli(empty_cli: Cli) -> Cli:
    """Return the command line in the folder of a project with workflows."""
    empty_cli.write(FILES)
    return empty_cli


def test_a_question_is_asked_and_answered(cli: Cli) -> None:
    """A waiting run exits with 3 and prints the command that answers it; the command works."""
    waits = cli(*REFUND)
    assert (waits.code, waits.err) == (3, "")
    assert "approve waits for an answer" in waits.out
    assert "Pay? refund\n" in waits.out
    assert '\nExpected: {"type": "object", "required": ["ok"]' in waits.out
    command = "lorebind run triage --thread t1 --resume --answer approve='{\"ok\": ...}'\n"
    assert waits.out.endswith(f"Answer with: {command}")
    done = cli(*PAY)
    assert (done.code, done.err) == (0, "")
    assert '{"ok": true}' in done.out


def test_an_answer_resumes_without_being_told_to(cli: Cli) -> None:
    """`--answer` implies `--resume`."""
    assert cli(*REFUND).code == 3
    assert cli("run", "triage", "-t", "t1", "-a", 'approve={"ok": false}').code == 0


def test_what_waits_as_data(cli: Cli) -> None:
    """The JSON of a run has its progress and the status of each task."""
    result = json.loads(cli(*REFUND, "-o", "json").out)
    assert (result["status"], result["thread_id"], result["output"]) == ("waiting", "t1", None)
    (question,) = result["waiting"]
    assert question.keys() == {"task", "path", "prompt", "schema"}
    done = json.loads(cli(*PAY, "-o", "json").out)
    assert (done["status"], done["waiting"]) == ("completed", [])
    assert done["output"] == {"answers": None, "paid": {"ok": True}}
    assert done["tasks"]["read"].keys() >= {"status", "error", "attempts", "items"}
    assert done["tasks"]["answers"]["status"] == "skipped"


def test_answers_are_json_or_text(cli: Cli) -> None:
    """An answer that is valid JSON is read as JSON, any other as text, including NaN."""
    wait = "id: ask\ntasks: [{ id: name, type: wait, prompt: 'Who?' }]\n"
    cli.write({"workflows/ask.yaml": wait})
    written = {"42": 42, '"42"': "42", "Ann": "Ann", "NaN": "NaN", "a=b": "a=b", "": ""}
    for number, (value, read) in enumerate(written.items()):
        assert cli("run", "ask", "-t", f"t{number}").code == 3
        done = cli("run", "ask", "-t", f"t{number}", "-a", f"name={value}", "-o", "json")
        assert json.loads(done.out)["output"] == read


def test_a_run_is_paused_before_a_task(cli: Cli) -> None:
    """`--interrupt-before` exits with 3 and prints how to continue; then the task runs."""
    paused = cli(*REFUND, "--interrupt-before", "kind")
    assert (paused.code, "Paused before kind" in paused.out) == (3, True)
    assert paused.out.endswith("Continue with: lorebind run triage --thread t1 --resume\n")
    assert json.loads(cli(*REFUND[:-1], "t2", "--interrupt-before", "kind", "-o", "json").out)[
        "paused"
    ] == ["kind"]
    before = cli("run", "triage", "--thread", "t1", "--resume")
    assert (before.code, "approve waits" in before.out) == (3, True)


def test_a_run_that_failed_goes_on_where_it_failed(cli: Cli) -> None:
    """A failed run exits with 1 and prints the command that resumes it; no task is repeated."""
    failed = cli("run", "strict", "-i", "ticket=boom", "--thread", "a b")
    assert (failed.code, failed.out) == (1, "")
    assert "task 'read' of workflow 'strict' failed" in failed.err
    assert failed.err.endswith("lorebind run strict --thread 'a b' --resume\n")
    (listed,) = json.loads(cli("workflow", "threads", "strict", "-o", "json").out)["threads"]
    assert (listed["thread_id"], listed["status"]) == ("a b", "failed")
    cli.write({"mended": ""})
    assert cli("run", "strict", "--thread", "a b", "--resume").code == 0
    assert (cli.root / "ran").read_text() == "first\n"


def test_a_failure_that_was_handled_is_shown(cli: Cli) -> None:
    """The run completes, and its output names the failed task with the reason."""
    done = cli("run", "triage", "-i", "ticket=boom")
    assert done.code == 0
    assert re.search(r"read failed ─+\nValueError: no ticket \(1 attempt\)\n", done.out)


def test_the_command_that_resumes_names_project_and_tenant(cli: Cli) -> None:
    """The printed command includes `--project` or `--tenant` if needed, so it can be pasted."""
    (cli.root / "else where").mkdir()
    cli.move_to(cli.root / "else where")
    done = cli(*REFUND, "--project", "..", "--tenant", "Ann B")
    assert done.out.endswith(f" --project {cli.root} --tenant 'Ann B'\n")
    assert cli(*PAY, "--project", "..").code == 2
    assert cli(*PAY, "--project", "..", "--tenant", "Ann B").code == 0
    cli.move_to(cli.root.parent)
    failed = cli("run", "strict", "-p", cli.root.name, "-i", "ticket=boom", "-t", "x")
    assert failed.err.endswith(f" --thread x --resume --project {cli.root.name}\n")


WRONG: dict[str, tuple[list[str], int, str]] = {
    "answer-without-thread": (["--answer", "approve=1"], 2, "add --thread ID, `lorebind workflow"),
    "resume-without-thread": (["--resume"], 2, "need a thread; add"),
    "resume-with-input": (["-t", "t1", "--resume", "-i", "ticket=x"], 2, "omit --input"),
    "answer-without-value": (["-t", "t1", "-a", "approve"], 2, "is not of the form task=value"),
    "answer-twice": (["-t", "t1", "-a", "x=1", "-a", "x=2"], 2, "'x' is given twice"),
    "no-such-task": (["-t", "t1", "-a", "aprove=1"], 2, "did you mean 'approve'"),
    "schema": (["-t", "t1", "-a", "approve=yes"], 2, "'yes' is not of type 'object'"),
    "no-such-thread": (["-t", "t2", "--resume"], 2, "`lorebind workflow threads triage` lists"),
    "empty-thread": (["-t", "", "-i", "ticket=x"], 2, "--thread is empty"),
    "forgot-resume": (["-t", "t1"], 1, "--resume --answer approve='{\"ok\": ...}'"),
    "forgot-input": (["-t", "t2"], 2, "workflow 'triage' needs the input 'ticket'"),
    "still-waits": (["-t", "t1", "-i", "ticket=x"], 1, "--resume --answer approve='{\"ok\": ...}'"),
    "no-such-pause": (["-i", "ticket=x", "--interrupt-before", "kin"], 2, "did you mean 'kind'"),
    "no-such-folder": (["-i", "ticket=x", "--events", "no/file"], 2, "cannot write events to no"),
    "yaml-stream": (["-i", "ticket=x", "--stream", "-o", "yaml"], 2, "use --output json"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_says_what_to_write(cli: Cli, name: str) -> None:
    """Options that exclude each other and wrong answers are refused; the thread does not change."""
    assert cli(*REFUND).code == 3
    options, code, reason = WRONG[name]
    done = cli("run", "triage", *options)
    assert (done.code, done.out) == (code, "")
    assert reason in done.err
    assert len(done.err.splitlines()) == 1
    assert cli(*PAY).code == 0


def test_a_thread_that_completed_is_resumed_and_continued(cli: Cli) -> None:
    """A resume of a completed thread prints its result; new inputs start another turn."""
    first = cli("run", "triage", "-t", "t1", "-i", "ticket=x")
    assert (first.code, cli("run", "triage", "-t", "t1", "--resume")) == (0, first)
    assert cli("run", "triage", "-t", "t1", "-i", "ticket=y").code == 0
    steps = json.loads(cli("workflow", "history", "triage", "-t", "t1", "-o", "json").out)
    assert {step["turn"] for step in steps["history"]} == {1, 2}


def test_threads_in_memory_cannot_be_resumed(cli: Cli) -> None:
    """They end with the command, and the message says so, not a command that would fail."""
    cli.write({"lorebind.yaml": FILES["lorebind.yaml"] + "checkpointer: { type: memory }\n"})
    waits = cli(*REFUND)
    assert waits.code == 3
    assert "kept in memory" in waits.out
    assert "lorebind run" not in waits.out
    done = cli(*PAY)
    assert (done.code, "kept in memory" in done.err) == (2, True)


def test_a_run_is_watched(cli: Cli) -> None:
    """`--stream` prints events line by line, model output as text, then the output."""
    done = cli("run", "triage", "-i", "ticket=x", "--stream", "-t", "t1")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "triage starts, thread t1"
    line = next(line for line in lines if line.startswith("apologise says: "))
    text = line.removeprefix("apologise says: ")
    assert lines.index("apologise starts") < lines.index(line)
    assert lines[lines.index(line) + 1].startswith("apologise completed after ")
    run_end = next(number for number, line in enumerate(lines) if line.startswith("run completed"))
    assert text in lines[run_end + 1 :]


def test_a_run_is_watched_by_a_program(cli: Cli) -> None:
    """With `--output json`, each event is a line and the result the last, also in a file."""
    done = cli(*REFUND, "--stream", "-o", "json", "--events", "events.jsonl")
    assert (done.code, done.err) == (3, "")
    *events, result = map(json.loads, done.out.splitlines())
    assert [event["seq"] for event in events] == [*range(1, len(events) + 1)]
    assert (events[0]["type"], events[-1]["type"]) == ("run_start", "run_end")
    assert result["status"] == "waiting"
    written = (cli.root / "events.jsonl").read_text().splitlines()
    assert [*map(json.loads, written)] == events
    for event in events:
        Draft202012Validator(event_schema()).validate(event)
    assert cli(*PAY, "--events", "events.jsonl").code == 0
    assert len((cli.root / "events.jsonl").read_text().splitlines()) > len(written)


def test_a_file_called_stdout_is_a_file(cli: Cli) -> None:
    """`--events stdout` writes a file of that name; to print events, use `--stream`."""
    cli(*REFUND, "--events", "stdout")
    assert (cli.root / "stdout").read_text().startswith('{"type": "run_start"')


def test_a_failed_run_is_watched_to_its_end(cli: Cli) -> None:
    """The events are printed, and the error goes to standard error with exit code 1."""
    done = cli("run", "strict", "-i", "ticket=boom", "--stream", "-o", "json")
    assert done.code == 1
    assert json.loads(done.out.splitlines()[-1])["data"]["status"] == "failed"
    assert "resume with: lorebind run strict" in done.err


def _event(kind: Any, path: str, **data: Any) -> RunEvent:
    from lorebind_bindings.workflow.events import RunEvent

    return RunEvent(kind, 1, 1, "t1", path.split("[")[0], path, data)


def test_models_that_speak_at_once_are_read_one_after_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Events and texts of other tasks follow the current text; nothing is lost or repeated."""
    from lorebind.cli.streaming import EventLines

    lines = EventLines()
    for event in (
        _event("model_chunk", "a[0]", text="one "),
        _event("model_chunk", "a[1]", text="three "),
        _event("task_start", "b", attempt=1),
        _event("model_chunk", "a[0]", text="two"),
        _event("model_chunk", "a[1]", text="four"),
        _event("model_end", "a[1]", text="three four", usage={}),
        _event("model_end", "a[0]", text="one two", usage={}),
        _event("model_end", "c", text="not streamed", usage={}),
    ):
        lines.show(event)
    lines.end()
    assert capsys.readouterr().out.splitlines() == [
        "a[0] says: one two",
        "a[1] says: three four",
        "b starts",
        "c said: not streamed",
    ]


def test_one_that_says_nothing_does_not_hide_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After some hundreds of events, they are printed, and the text continues on a new line."""
    from lorebind.cli.streaming import EventLines

    lines = EventLines()
    lines.show(_event("model_chunk", "slow", text="hm "))
    for number in range(300):
        lines.show(_event("task_start", f"b{number}", attempt=1))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "slow says: hm "
    assert len(printed) == 301
    lines.show(_event("model_chunk", "slow", text="yes"))
    lines.end()
    assert capsys.readouterr().out == "slow says: yes\n"


def test_a_run_that_was_interrupted_names_its_thread(cli: Cli, forked: ForkedPython) -> None:
    """Ctrl-C prints the command that resumes the thread, even if the user has not named it."""
    slow = 'id: slow\ntasks: [{ id: nap, type: python, call: "naps:nap" }]\n'
    nap = "import asyncio\n\nasync def nap():\n    open('begun', 'w').close()\n"
    cli.write({"workflows/slow.yaml": slow, "naps.py": nap + "    await asyncio.sleep(60)\n"})
    process = subprocess.Popen(
        [forked.commands / "lorebind", "run", "slow"],
        cwd=cli.root,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (cli.root / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    match = re.search(r"this resumes it: lorebind run slow --thread (\w+) --resume$", err.strip())
    assert match
    cli.write({"naps.py": "def nap():\n    return 7\n"})
    done = cli("run", "slow", "--thread", match[1], "--resume", "-o", "json")
    assert json.loads(done.out)["output"] == 7


def test_threads_are_listed_and_told(cli: Cli) -> None:
    """Tables show the question that a thread waits for, and the output of each task."""
    assert "no threads yet" in cli("workflow", "threads", "triage").out
    assert not (cli.root / ".lorebind").exists()
    cli(*REFUND)
    listed = cli("workflow", "threads", "triage").out
    assert re.search(
        r"(?m)^t1 +waiting +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +approve: Pay\? ref", listed
    )
    table = cli("workflow", "history", "triage", "--thread", "t1").out
    assert re.search(r'(?m)^1 +2 +kind +completed +1 +0\.\d\d +"refund"$', table)
    assert cli("workflow", "history", "triage", "t1").out == table
    for wrong in ([], ["t1", "-t", "t1"]):
        done = cli("workflow", "history", "triage", *wrong)
        assert (done.code, "name one thread" in done.err) == (2, True)
    newest = json.loads(cli("workflow", "threads", "triage", "-n", "1", "-o", "json").out)
    assert newest["threads"][0]["waiting"][0]["path"] == "approve"
    other = cli("workflow", "threads", "triage", "--tenant", "other")
    assert "no threads yet" in other.out


def test_a_thread_is_replayed(cli: Cli) -> None:
    """A replay is a new thread, which may also wait; the original thread does not change."""
    cli(*REFUND)
    cli(*PAY)
    again = cli("workflow", "replay", "triage", "--thread", "t1", "--step", "2")
    assert (again.code, again.err) == (3, "")
    match = re.search(r"Thread (\w+) replays t1 from after step 2\.", again.out)
    assert match
    assert f"--thread {match[1]} --resume" in again.out
    whole = cli("workflow", "replay", "triage", "-t", "t1", "-s", "3", "-o", "json")
    assert json.loads(whole.out)["output"]["paid"] == {"ok": True}
    wrong = cli("workflow", "replay", "triage", "-t", "t1", "-s", "9")
    assert (wrong.code, "expected 0 to 4" in wrong.err) == (2, True)


def test_workflows_are_listed_and_shown_without_secrets(cli: Cli) -> None:
    """Neither command needs a variable, and no code of the project runs."""
    secret = "models: [{ id: m, provider: openai, model: x, api_key: '{{ .secrets.KEY }}' }]\n"
    cli.write({"lorebind.yaml": FILES["lorebind.yaml"] + secret, "steps.py": "1 / 0\n"})
    listed = cli("workflow", "list")
    assert (listed.code, listed.err) == (0, "")
    assert re.search(r"(?m)^triage +ticket +6 +Sorts tickets\.$", listed.out)
    data = json.loads(cli("workflow", "list", "-o", "json").out)["workflows"]
    assert data[0]["inputs"] == {"ticket": {"type": "string", "required": True}}
    done = cli("workflow", "show", "triage")
    assert (done.code, done.err) == (0, "")
    assert "kind       router  tasks.read.output.kind\n    question -> answers\n" in done.out
    assert cli("workflow", "show", "triage", "-f", "mermaid").out.startswith("flowchart TD\n")
    as_json = cli("workflow", "show", "triage", "--format", "json").out
    assert as_json == cli("workflow", "show", "triage", "-o", "json").out
    assert json.loads(as_json)["flow"]["entry"] == "read"
    wrong = cli("workflow", "show", "triag")
    assert (wrong.code, "did you mean 'triage'" in wrong.err) == (2, True)
    both = cli("workflow", "show", "triage", "-f", "mermaid", "-o", "json")
    assert (both.code, "omit --format or --output" in both.err) == (2, True)
