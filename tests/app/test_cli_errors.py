"""Errors on the command line: the exit code, the message, and its stream."""

from __future__ import annotations

import json
import os
import re

import pytest

from .helpers import PROJECT, WORKFLOW, Cli, Done

QUERY = ["knowledge", "query", "docs", "-q"]


MODEL = """\
models:
  - { id: m, provider: openai, model: x, api_key: "{{ .env.LOREBIND_TEST_NO }}" }
"""


def failed(done: Done, code: int) -> str:
    """Return the message of a failed command: all on stderr, without a traceback."""
    assert done.code == code, done
    assert "Traceback" not in done.err
    assert done.err
    return done.err


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_an_unknown_key_is_shown_with_its_place(cli: Cli) -> None:
    """An unknown key is reported with file, line, column, the nearest key, and all known keys."""
    text = PROJECT.replace("description: How we work", "descripton: How we work")
    cli.write({"lorebind.yaml": text})
    done = cli("validate")
    line = line_of(text, "descripton")
    assert failed(done, 2) == (
        f"lorebind.yaml:{line}:5: unknown key 'descripton'; "
        "did you mean 'description'; known: chunking, description, embedder, id, ingest, keep, "
        "language, metadata, preprocess, retrieval, sources, sparse, "
        "tool_filters, vector_db, weak_below\n"
    )
    assert done.out == ""


def test_a_dangling_reference_is_shown_with_its_place(cli: Cli) -> None:
    """A binding to an undeclared id is reported with its location and the nearest id."""
    text = PROJECT.replace("[{ id: docs }]", "[{ id: dosc }]")
    cli.write({"lorebind.yaml": text})
    line = line_of(text, "knowledge: [")
    assert failed(cli("validate"), 2) == (
        f"lorebind.yaml:{line}:15: project 'shop' binds unknown knowledge base 'dosc'; "
        "did you mean 'docs'; known: docs, rules\n"
    )


def test_all_problems_of_all_files_come_at_once(cli: Cli) -> None:
    """Every problem has a line, whichever file it is in, and all commands report the same."""
    cli.write(
        {
            "lorebind.yaml": PROJECT + "first: 1\nsecond: 2\n",
            "workflows/reply.yaml": WORKFLOW + "third: 3\n",
        }
    )
    for command in (["validate"], ["knowledge", "list"], ["run", "reply"], ["ask", ".", "x"]):
        message = failed(cli(*command), 2)
        for part in ("'first'", "'second'", "workflows/reply.yaml:7:1: unknown key 'third'"):
            assert part in message
        assert len(message.splitlines()) == 3


def test_a_missing_variable_is_named(cli: Cli) -> None:
    """A variable that is not set is a problem at the line that uses it, but not for `validate`."""
    text = PROJECT + MODEL
    cli.write({"lorebind.yaml": text})
    place = f"lorebind.yaml:{line_of(text, 'api_key')}:42"
    reason = "variable LOREBIND_TEST_NO is not set; set it in the environment or in .env"
    assert failed(cli("validate", "--strict"), 2) == f"{place}: {reason}\n"
    assert failed(cli("ask", "--trust", ".", "x"), 2) == f"{place}: model 'm': {reason}\n"
    done = cli("validate")
    assert (done.code, done.err) == (0, f"notice: {place}: {reason}\n")
    assert done.out == "shop: valid (2 knowledge bases, 1 workflow, 0 agents)\n"
    data = json.loads(cli("validate", "-o", "json").out)
    assert (data["valid"], data["problems"]) == (True, [])
    assert [notice["column"] for notice in data["notices"]] == [42]
    strict = json.loads(cli("validate", "--strict", "-o", "json").out)
    assert (strict["valid"], strict["problems"]) == (False, data["notices"])


def test_a_variable_may_be_in_the_env_file(cli: Cli) -> None:
    """Variables can be set in `.env`."""
    text = PROJECT + MODEL
    cli.write({"lorebind.yaml": text, ".env": "LOREBIND_TEST_NO=sk-abc-1234\n"})
    done = cli("validate")
    assert (done.code, done.err) == (0, "")
    assert "sk-abc-1234" not in done.out


def test_a_project_file_that_is_not_utf8_is_named(cli: Cli) -> None:
    """A configuration that cannot be decoded is an error with its line, not a traceback."""
    (cli.root / "lorebind.yaml").write_bytes(b"name: shop\ndescription: caf\xe9\n")
    message = failed(cli("validate"), 2)
    assert message == "lorebind.yaml:2:1: the file is not UTF-8; save it as UTF-8\n"


def test_a_document_that_is_no_text_fails_alone(cli: Cli) -> None:
    """A document that cannot be read is named, the others are ingested, and the exit is 1."""
    (cli.root / "docs/latin.md").write_bytes(b"# Latin\n\ncaf\0\n")
    done = cli("knowledge", "ingest", "docs")
    assert done.code == 1
    assert "failed document docs/latin.md: looks like a binary file" in done.out
    assert "completed with failures" in done.out
    data = json.loads(cli("knowledge", "ingest", "docs", "-o", "json").out)
    assert data["status"] == "completed_with_failures"
    assert [failure["uri"] for failure in data["failures"]] == ["docs/latin.md"]
    assert data["failures"][0]["attempts"] == 2
    assert data["documents"]["unchanged"] == 2
    assert cli(*QUERY, "rotate the keys").code == 0


def test_a_folder_without_documents_is_named(cli: Cli) -> None:
    """A source that matches nothing fails, and the message names the searched location."""
    (cli.root / "rules/access.md").unlink()
    done = cli("knowledge", "ingest", "rules")
    assert done.code == 1
    assert f"no file in {cli.root} matches rules/*.md" in done.out


@pytest.mark.parametrize("path", ["../x/*.md", "/etc/*.md", "docs/../../x.md", "~/x.md"])
def test_sources_stay_in_the_project_folder(cli: Cli, path: str) -> None:
    """A pattern that leads out of the project folder is refused when the project is loaded."""
    text = PROJECT.replace("docs/**/*.md", path)
    cli.write({"lorebind.yaml": text})
    message = failed(cli("validate"), 2)
    assert message.startswith(f"lorebind.yaml:{line_of(text, path)}:")
    assert f"{path!r} leaves the project folder" in message


def test_links_stay_in_the_project_folder(
    cli: Cli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A link to a location outside is not followed, and this is reported."""
    outside = tmp_path_factory.mktemp("outside") / "secret.md"
    outside.write_text("# Secret\n\nThe launch code is 0000.\n")
    os.symlink(outside, cli.root / "docs/link.md")
    done = cli("knowledge", "ingest", "docs")
    assert done.code == 1
    assert "docs/link.md: is a link to a location outside the project folder" in done.out
    assert "launch code" not in cli(*QUERY, "the launch code").out


def test_a_question_without_a_hit_exits_1(ready_cli: Cli) -> None:
    """If nothing is found, the exit code is 1, as text and as data."""
    done = ready_cli(*QUERY, "rotate", "--min-score", "0.99")
    assert (done.code, done.err) == (1, "")
    assert done.out == (
        "no passage of docs matches the question, min_score and filters; "
        "show their values with --explain\n"
    )
    explained = ready_cli(*QUERY, "rotate", "--min-score", "0.99", "--explain")
    assert explained.out.startswith(
        "no passage of docs matches the question, min_score and filters\n"
    )
    data = ready_cli(*QUERY, "rotate", "--min-score", "0.99", "-o", "json")
    assert data.code == 1
    assert json.loads(data.out)["matches"] == []


def test_a_filter_that_matches_nothing_exits_1(ready_cli: Cli) -> None:
    """`--filter` narrows a search; values are JSON if possible, otherwise text."""
    assert ready_cli(*QUERY, "keys", "--filter", "team=ops").code == 0
    assert ready_cli(*QUERY, "keys", "--filter", "line_start=1").code == 0
    assert ready_cli(*QUERY, "keys", "--filter", 'uri={"$in":["docs/bills.md"]}').code == 0
    assert ready_cli(*QUERY, "keys", "--filter", "team=sales").code == 1
    assert ready_cli(*QUERY, "keys", "--filter", "team=ops", "--filter", "uri=x").code == 1


USAGE: list[tuple[list[str], str]] = [
    ([*QUERY, "  "], "lorebind: the question is empty; write a question"),
    (["ask", ".", " "], "lorebind: the question is empty; write a question"),
    (["knowledge", "query", "dosc", "-q", "x"], "no knowledge base 'dosc'; did you mean 'docs'"),
    (["knowledge", "ingest", "dosc"], "no knowledge base 'dosc'; did you mean 'docs'"),
    (["knowledge", "ingest", ""], "the id of the knowledge base is empty; write an id, or omit"),
    (["knowledge", "plan", " "], "the id of the knowledge base is empty; write an id, or omit"),
    (["knowledge", "ingest", "-w", "replay"], "no workflow 'replay'; did you mean 'reply'"),
    (["knowledge", "ingest", "-w", "reply"], "'reply' declares no knowledge base to ingest"),
    (["knowledge", "get", "dosc"], "no knowledge base 'dosc'; did you mean 'docs'"),
    (["run", "replay"], "no workflow 'replay'; did you mean 'reply'; known: reply"),
    (["run", "reply"], "workflow 'reply' needs the input 'question'"),
    (["run", "reply", "-i", "question"], "--input 'question' is not of the form name=value"),
    (["run", "reply", "-i", "questoin=x"], "no input 'questoin'; did you mean 'question'"),
    (["run", "reply", "-i", "question=x", "-i", "limit=many"], "'limit' is of type integer"),
    (["run", "reply", "-i", "question=x", "-i", f"limit={'9' * 5000}"], "is of type integer"),
    (
        ["run", "reply", "-i", "question=x", "-i", "limit=1.5"],
        "must be of type integer, got a decimal number",
    ),
    ([*QUERY, "x", "--filter", "team"], "--filter 'team' is not of the form key=value"),
    ([*QUERY, "x", "--filter", "=ops"], "--filter '=ops' is not of the form key=value"),
    ([*QUERY, "x", "--filter", "a=1", "--filter", "a=2"], "--filter has 'a' twice"),
    (QUERY[:3], "write one question: lorebind query docs"),
    ([*QUERY, "x", "y"], "there is no knowledge base 'y'; known: docs, rules"),
    ([*QUERY, "x", "--filter", 'uri={"$foo":1}'], "unknown operator '$foo'; known: $and"),
    ([*QUERY, "x", "--top-k", "0"], "lorebind: top_k is 0; expected 1 to 50"),
    ([*QUERY, "x", "--top-k", "51"], "lorebind: top_k is 51; expected 1 to 50"),
    ([*QUERY, "x", "--top-k", "many"], "'--top-k'"),
    ([*QUERY, "x", "--min-score", "2"], "lorebind: min_score is 2.0; expected 0 to 1"),
    (
        [*QUERY, "x", "--strategy", "telepathy"],
        "'telepathy' is not supported; known: hybrid, lexical, mmr, rerank, similarity",
    ),
    ([*QUERY, "x", "-o", "jsn"], "'jsn' is not one of 'table', 'json', 'yaml'"),
    (["knowledge", "ingest", "--strategy", "upsrt"], "'upsrt' is not one of 'upsert', 'replace'"),
    (["ask", "nowhere", "x"], "nowhere is neither a folder nor a file"),
    (["ask", ".", "x", "--top-k", "0"], "'--top-k'"),
    (["knowlege"], "No such command 'knowlege'"),
    (["validate", "--frob"], "No such option"),
    (["validate", "-p", "nowhere"], "there is no project file in nowhere"),
]


@pytest.mark.parametrize(("arguments", "text"), USAGE, ids=[" ".join(cmd)[:60] for cmd, _ in USAGE])
def test_wrong_usage_exits_2(ready_cli: Cli, arguments: list[str], text: str) -> None:
    """Wrong usage has exit code 2 and a message that explains it."""
    assert text in re.sub(r"\s+", " ", failed(ready_cli(*arguments), 2))


@pytest.mark.parametrize("command", [["validate"], ["knowledge", "list"], ["run", "x"]])
def test_without_a_project_there_is_a_way_out(empty_cli: Cli, command: list[str]) -> None:
    """Without a lorebind.yaml, the message names the command that creates one."""
    done = empty_cli(*command)
    assert "there is no project file" in failed(done, 2)
    assert "create one with: lorebind init" in done.err
    assert done.out == ""


def test_what_is_not_ingested_yet_says_what_to_run(cli: Cli) -> None:
    """A query before any ingest fails with exit code 1 and names the command to run."""
    done = cli(*QUERY, "x")
    assert failed(done, 1) == (
        "lorebind: nothing has been ingested into knowledge base 'docs' yet; "
        "run: lorebind knowledge ingest docs\n"
    )
    assert "run: lorebind knowledge ingest docs" in failed(
        cli("run", "reply", "-i", "question=x"), 1
    )
    listed = cli("knowledge", "list")
    assert listed.code == 0
    assert re.search(r"(?m)^docs +0 +0 +never", listed.out)
    assert not (cli.root / ".lorebind" / "lorebind.db").exists()


def test_errors_leave_stdout_alone(cli: Cli) -> None:
    """With `--output json`, a failure prints nothing on stdout that is not JSON."""
    done = cli(*QUERY, "x", "-o", "json")
    assert (done.code, done.out) == (1, "")
    assert cli("knowledge", "ingest", "dosc", "-o", "json").out == ""


def test_a_mass_delete_is_refused_by_name(ready_cli: Cli) -> None:
    """If most documents are gone, nothing is removed unless the option allows it."""
    ready_cli.write({"docs/other.md": "# Other\n\nSomething else.\n"})
    for name in ("keys", "bills"):
        (ready_cli.root / f"docs/{name}.md").unlink()
    done = ready_cli("knowledge", "ingest", "docs")
    assert "2 of 2 documents of 'docs'" in failed(done, 1)
    assert "--allow-mass-delete" in done.err
    assert ready_cli(*QUERY, "rotate the keys", "--min-score", "0.5").code == 0
    assert ready_cli("knowledge", "ingest", "docs", "--allow-mass-delete").code == 0
    assert ready_cli(*QUERY, "rotate the keys", "--min-score", "0.5").code == 1
