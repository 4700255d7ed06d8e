"""The output of ingests, plans and reindexes on the command line."""

from __future__ import annotations

import json
import re
from typing import BinaryIO

import pytest
import yaml

from lorebind import Project
from lorebind.cli import progress
from lorebind.cli.ingesting import show_plan
from lorebind.cli.options import Output
from lorebind_config.project_files import open_inside
from lorebind_knowledge.ingest import progress as ingest_progress
from lorebind_knowledge.sources.folder import files
from tests.bindings.helpers import PARTS
from tests.knowledge.web_server import Answer, WebServer

from .helpers import PROJECT, Cli

QUERY = ["query", "docs", "-q", "How do I rotate the keys?"]
PAID = """\
embedders:
  - id: words
    provider: langchain
    class: "langchain_core.embeddings:DeterministicFakeEmbedding"
    config: { size: 16 }
    price_per_million_tokens: PRICE
"""
COUNTS = {"added", "updated", "removed", "unchanged", "failed"}


def test_one_that_fails_does_not_stop_the_others(cli: Cli) -> None:
    """The other knowledge bases are ingested, the failures are reported, and the exit code is 1."""
    lost = 'provider: hashing }, { id: lost, provider: langchain, class: "gone:Lost" }'
    broken = PROJECT.replace("provider: hashing }", lost)
    broken = broken.replace("- id: docs\n", "- id: docs\n    embedder: lost\n")
    cli.write({"lorebind.yaml": broken, "gone.py": "Lost = int\n"})
    done = cli("ingest")
    assert done.code == 1
    assert "rules: completed" in done.out
    assert "lorebind: docs: " in done.err
    assert "2 knowledge bases, 1 with failures: docs\n" in done.out
    assert cli("ingest", "rules").code == 0
    assert cli("ingest", "docs").code != 0


def test_the_report_of_an_ingest(cli: Cli) -> None:
    """An ingest's JSON counts documents and chunks, and the texts sent to the embedder."""
    report = json.loads(cli("knowledge", "ingest", "docs", "-o", "json").out)
    assert report["documents"] == dict.fromkeys(COUNTS, 0) | {"added": 2}
    assert report["chunks"] == {"added": 2, "removed": 0, "unchanged": 0, "total": 2}
    assert (report["texts_embedded"], report["status"]) == (2, "completed")
    assert (report["kb_id"], report["strategy"]) == ("docs", "upsert")


def test_all_knowledge_bases_are_ingested_in_turn(cli: Cli) -> None:
    """Without an id every knowledge base is ingested, and the JSON is a list of reports."""
    reports = json.loads(cli("knowledge", "ingest", "-o", "json").out)
    assert [report["kb_id"] for report in reports] == ["docs", "rules"]


@pytest.mark.parametrize(
    ("price", "cost"),
    [("20000", "0.7000"), ("0.02", "less than 0.0001"), ("100000000", "3,500.00")],
)
def test_what_an_ingest_will_cost(cli: Cli, price: str, cost: str) -> None:
    """If the embedder has a price, `plan` prints tokens and cost, and its JSON has both."""
    text = re.sub(r"(?m)^embedders:.*\n", PAID.replace("PRICE", price), PROJECT)
    cli.write({"lorebind.yaml": text})
    data = json.loads(cli("knowledge", "plan", "docs", "-o", "json").out)
    assert (data["tokens_to_embed"], data["tokenizer"], data["exact"]) == (35, "len/4", False)
    assert data["cost"] == pytest.approx(35 * float(price) / 1e6)
    line = f"Tokens to embed: 35 (len/4, estimated), cost {cost}"
    assert cli("knowledge", "plan", "docs").out.splitlines()[1] == line


def test_to_another_embedder(ready_cli: Cli) -> None:
    """After a change of the embedder, a query is refused with a command that fixes it."""
    assert ready_cli(*QUERY).code == 0
    other = PROJECT.replace("provider: hashing", "provider: hashing, config: { dimension: 64 }")
    assert other != PROJECT
    ready_cli.write({"lorebind.yaml": other})
    refused = ready_cli(*QUERY)
    command = "lorebind knowledge reindex docs"
    assert (refused.code, refused.err.endswith(f"rebuild it with: {command}\n")) == (1, True)
    assert ready_cli(*command.split()[1:]).code == 0
    assert ready_cli(*QUERY).code == 0


def test_a_reindex_that_cannot_switch(ready_cli: Cli) -> None:
    """Exit code 1 means that the old index stays in use, and a note gives the reason."""
    (ready_cli.root / "docs" / "keys.md").write_bytes(b"\0\xff")
    done = ready_cli("knowledge", "reindex", "docs")
    assert done.code == 1
    assert "stays in use" in done.out
    assert ready_cli(*QUERY).code == 0


def test_an_address_is_fetched_once(empty_cli: Cli, socket_enabled: None) -> None:
    """An ingest, a second one and a reindex fetch each document once."""
    server = WebServer()
    try:
        server.routes["/a.md"] = Answer(b"# Keys\n\nRotate the keys.\n")
        server.routes["/b.md"] = Answer(b"# Bills\n\nBills are sent by mail.\n", {"ETag": "1"})
        urls = [server.url("/a.md"), server.url("/b.md")]
        web = {"type": "url", "urls": urls, "fetch": {"allow": ["127.0.0.1"]}}
        kb = {"id": "web", "sources": [web]}
        written = yaml.safe_dump({"name": "shop", "knowledge_bases": [kb]})
        empty_cli.write({"lorebind.yaml": f"{written}{PARTS}"})
        for requests, count in ((2, "added"), (4, "unchanged"), (6, "added")):
            verb = "reindex" if requests == 6 else "ingest"
            report = json.loads(empty_cli("knowledge", verb, "web", "-o", "json").out)
            assert report["documents"][count] == 2
            assert len(server.requests) == requests
    finally:
        server.close()


def test_what_cannot_be_planned_is_noted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ready_cli: Cli
) -> None:
    """Notices of a plan are printed below its counts."""
    with Project.load(ready_cli.root) as project:
        docs = project.knowledge_base("docs")
        plan = docs.plan()
        plan.notices.append("look at the address")
        monkeypatch.setattr(docs, "plan", lambda **_: plan)
        show_plan(docs, Output.table)
    assert capsys.readouterr().out.splitlines()[-1] == "note: look at the address"


def test_an_ingest_opens_each_document_once(
    ready_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest makes no plan of its own, which would read every document before it does."""
    opened: list[str] = []

    def counted(home: str, path: str) -> BinaryIO:
        opened.append(path)
        return open_inside(home, path)

    monkeypatch.setattr(files, "open_inside", counted)
    assert ready_cli("ingest", "docs").code == 0
    assert sorted(opened) == ["docs/bills.md", "docs/keys.md"]


def test_an_ingest_tells_its_progress_without_a_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log gets a line now and then; the last one counts everything."""
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0)
    monkeypatch.setattr(ingest_progress, "SECONDS", 0)
    lines = cli("knowledge", "ingest", "docs").err.splitlines()
    assert len(lines) > 1
    assert re.fullmatch(
        r"progress: (\d+) of \1 documents read, (\d+) of \2 chunks embedded", lines[-1]
    )
