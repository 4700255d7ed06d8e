"""Random projects with values of variables in many places, and all files that they write."""

from __future__ import annotations

import io
import json
import logging
import os
import random
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from lorebind.cli import main
from lorebind_config.project_files import DATA_FOLDER
from tests.knowledge.web_server import Answer, Request, WebServer

_FIRST = ["knowledge plan", "knowledge ingest"]
_OTHERS = [
    "knowledge query docs -q 'pages and keys'",
    "knowledge plan --strategy replace",
    "knowledge list",
    "knowledge get docs",
    "knowledge export",
    "knowledge ingest --strategy replace",
    "knowledge reindex docs",
    "validate",
    "doctor",
]
_TALKATIVE = ["lorebind_knowledge", "httpx", "httpcore"]
"""Loggers that are captured at all levels. Cloud clients hide their own DEBUG messages."""
_ODD = ["", "/", "+", "%41", "é", "~", "%2F", ".", "=", "%"]


class Telling(BaseLoader):
    """Repeats its settings wherever it can."""

    def __init__(self, place: str, mood: str) -> None:
        if mood == "unmade":
            raise ValueError(f"{place!r} is refused")
        self.place, self.mood = place, mood

    def lazy_load(self) -> Iterator[Document]:
        metadata = {"source": f"{self.place}/pages/{quote(self.place)}", "by": {"a": self.place}}
        yield Document(page_content="What the pages say.", metadata=metadata | {"of": self.place})
        if self.mood == "fails":
            raise ConnectionError(f"GET {quote(self.place, safe='')}: {json.dumps(self.place)}")


class Project:
    """A project in a folder, and the words that only its `.env` may contain."""

    def __init__(self, case: random.Random, root: Path, server: WebServer) -> None:
        self._case, self._root, self._server = case, root, server
        self.words: list[str] = []
        self._variables: dict[str, str] = {}
        sources = [self._source() for _ in range(case.randrange(1, 4))]
        documents = [{"id": "keys", "text": "The keys of the pages."}]
        sources.append({"type": "inline", "documents": documents})
        sqlite = {"id": "file", "type": "sqlite"}
        qdrant = {"id": "file", "type": "qdrant", "config": {"path": f"{DATA_FOLDER}/points"}}
        # JSON is valid YAML.
        declared = {
            "name": "traced_text",
            "embedders": [{"id": "words", "provider": "hashing"}],
            "vector_dbs": [case.choice([sqlite, sqlite, sqlite, qdrant])],
            "knowledge_bases": [{"id": "docs", "sources": sources}],
        }
        (root / "lorebind.yaml").write_text(json.dumps(declared, indent=1))
        lines = [f"{name}='{value}'\n" for name, value in self._variables.items()]
        (root / ".env").write_text("".join(lines), "utf-8")
        server.routes.clear()
        server.otherwise = self._answer

    def commands(self) -> list[str]:
        """Return commands that fill a project, and some that report on it."""
        return [*_FIRST, *self._case.sample(_OTHERS, 2)]

    def run(self, command: str, monkeypatch: pytest.MonkeyPatch) -> str:
        """Run a command, and return its output and all log messages."""
        printed, logged = io.StringIO(), io.StringIO()
        output = self._case.choice(["table", "json", "yaml"])
        monkeypatch.setenv("COLUMNS", "10000")
        monkeypatch.setattr("sys.argv", ["lorebind", *_split(command), "--output", output])
        handler = logging.StreamHandler(logged)
        logger, level = logging.getLogger(), logging.getLogger().level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.DEBUG)
        try:
            with redirect_stdout(printed), redirect_stderr(printed):
                main()
        except SystemExit:
            pass
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
        return printed.getvalue() + logged.getvalue()

    def files(self) -> bytes:
        """Return the names and contents of all files that Lorebind stores."""
        files = [path for path in (self._root / DATA_FOLDER).rglob("*") if path.is_file()]
        return b"\n".join(os.fsencode(path.name) + path.read_bytes() for path in files)

    def _template(self, value: str) -> str:
        name = f"V{len(self._variables)}"
        self._variables[name] = value
        return f"{{{{ .{self._case.choice(['env', 'secrets'])}.{name} }}}}"

    def _word(self) -> str:
        self.words.append(f"{self._case.getrandbits(48):012x}w{len(self.words)}z")
        return self.words[-1]

    def _value(self) -> str:
        case = self._case
        return f"{case.choice(_ODD)}{self._word()}{case.choice(_ODD)}"

    def _held(self) -> str:
        """Return a text with or without a value in it."""
        case = self._case
        kinds = ["{}", "a{}", "{}-b", "{}.md", "x"]
        return case.choice(kinds).format(self._template(self._value()))

    def _source(self) -> dict[str, Any]:
        case = self._case
        kind = case.choice(["url", "url", "url", "media_transcript", "cloud_storage", "langchain"])
        if kind == "cloud_storage":
            return self._bucket()
        if kind == "langchain":
            config = {"place": self._held(), "mood": case.choice(["", "fails", "unmade"])}
            return {"type": kind, "class": f"{__name__}:Telling", "config": config}
        fetch: dict[str, Any] = {"timeout_seconds": 0.5, "max_redirects": 2}
        if case.random() < 0.9:
            fetch["allow"] = ["127.0.0.1"]
        if case.random() < 0.5:
            header = self._template(case.choice(["", "é", "\\n"]) + self._word())
            fetch["headers"] = {"X-Key": case.choice(["{}", "Bearer {}"]).format(header)}
        urls = [self._address() for _ in range(case.randrange(1, 4))]
        return {"type": kind, "urls": urls, "fetch": fetch}

    def _address(self) -> str:
        case, port = self._case, self._server.port
        place = f"127.0.0.1:{port}"
        if case.random() < 0.3:
            place = f"{self._template(self._word())}:{self._template(self._word())}@{place}"
        elif case.random() < 0.1:
            place = f"{self._template(self._word())}.invalid"
        address = f"http://{place}/{self._held()}"
        if case.random() < 0.3:
            address = (
                self._template(f"http://{place}/{self._value()}") if "{" not in place else address
            )
        for sign in "/?#":
            if case.random() < 0.4:
                address += f"{sign}{case.choice(['k=', ''])}{self._held()}"
        return case.choice(["{}", "{}", "{}", "ftp{}"]).format(address)

    def _bucket(self) -> dict[str, Any]:
        case = self._case
        bucket, prefix = self._word(), self._word()
        if case.random() < 0.7:
            folder = self._root / bucket / prefix
            folder.mkdir(parents=True)
            (folder / "pages.md").write_text("The pages of a bucket.")
            (folder / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
        declared = {
            "type": "cloud_storage",
            "provider": case.choice(["file", "memory", "s3"]),
            "bucket": self._template(bucket),
            "prefix": f"{self._template(prefix)}/",
        }
        if declared["provider"] == "s3":
            retries = {"retries": {"max_attempts": 0}, "connect_timeout": 0.5}
            key, secret = self._template(self._word()), self._template(self._word())
            place = f"http://127.0.0.1:{self._server.port}/{self._held()}"
            declared["config"] = {"key": key, "secret": secret, "config_kwargs": retries}
            declared["config"]["endpoint_url"] = case.choice([place, self._template("http://[bad")])
        return declared

    def _answer(self, request: Request) -> Answer:
        case = self._case
        echo = case.choice([request.target, quote(request.target), unquote(request.target)])
        echo = echo.encode("ascii", "ignore").decode().replace("\n", "").replace("\r", "")
        text = {"Content-Type": "text/plain"}
        sent = f"{request.target} {request.headers}"
        value = next((word for word in self._variables.values() if word in sent), "")
        there = case.choice(
            [echo, f"{echo}/again", f"http://127.0.0.1:{self._server.port}{echo}", "http://[",
             f"http://{quote(value)}.invalid/{echo}", f"//127.0.0.1:1{echo}", "ftp://x/y"]
        )  # fmt: skip
        return case.choice(
            [
                Answer(b"What the pages say.", {"ETag": '"1"', **text}),
                Answer(b"WEBVTT\n\n00:01.000 --> 00:02.000\nThe pages.\n"),
                Answer(f"no {echo}".encode(), text, 404),
                Answer(f"no {echo}".encode(), text, case.choice([401, 403, 500, 503])),
                Answer(b"", {"Location": there}, case.choice([301, 302, 307])),
                Answer(b"\x00\xff", {"Content-Encoding": "gzip", **text}),
                Answer(b"%PDF-1.7 broken", {"Content-Type": "application/pdf"}),
            ]
        )


def _split(command: str) -> list[str]:
    before, _, quoted = command.partition(" '")
    return [*before.split(), *([quoted.strip("'")] if quoted else [])]
