"""Packs that are incomplete, altered or made by a hostile program, and declarations in packs."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project, UsageError
from lorebind_knowledge.packing import archive
from lorebind_knowledge.packing.archive import MEMBERS, PackWriter

from .helpers import Cli
from .packs import NOTE, Here, answers, packed


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    here = Here(tmp_path_factory.mktemp("good"))
    project = here.project()
    project.ingest("docs")
    project.add_documents("docs", [NOTE])
    data = packed(project, here.root / "kb.lorebind").read_bytes()
    here.close()
    return data


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    here = Here(tmp_path_factory.mktemp("target"))
    project = here.project()
    project.ingest("docs")
    yield project
    here.close()


def refused(target: Project, data: bytes, path: Path) -> str:
    """Return why a pack is refused, after checking that it has changed nothing."""
    path.write_bytes(data)
    before = answers(target), target.documents("docs")
    with pytest.raises(UsageError) as caught:
        target.knowledge_base("docs").unpack(path)
    assert (answers(target), target.documents("docs")) == before
    return str(caught.value)


def test_half_written_or_altered(good: bytes, target: Project, tmp_path: Path) -> None:
    """A file that lacks its end, or has any other byte, is refused."""
    pack = tmp_path / "kb.lorebind"
    for size in (0, 10, len(good) // 2, len(good) - 1):
        assert "is not a pack, or is incomplete" in refused(target, good[:size], pack)
    for place in range(0, len(good) - 80, len(good) // 12):
        altered = bytearray(good)
        altered[place] ^= 1
        assert "its checksum differs" in refused(target, bytes(altered), pack)
    with sqlite3.connect(tmp_path / "app.db") as database:
        database.executescript(
            "create table t (x); create view v as select * from t;"
            "create trigger g after insert on t begin delete from t; end;"
        )
    database.close()
    assert "is not a pack" in refused(target, (tmp_path / "app.db").read_bytes(), pack)


def changed(data: bytes, change: Callable[[dict[str, bytes]], Any]) -> bytes:
    """Return a pack with other members and the right checksums, as a hostile program makes it."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    members["manifest"] = json.dumps(manifest).encode()
    change(members)
    manifest = json.loads(members.pop("manifest"))
    manifest.pop("members", None)
    out = io.BytesIO()
    writer = PackWriter(out)
    for name, content in members.items():
        with writer.member(name) as member:
            member.write(content)
    writer.finish(manifest)
    return out.getvalue()


def in_line(name: str, number: int = 0, **values: Any) -> Callable[[dict[str, bytes]], None]:
    """Return the change of one line of a member."""

    def change(members: dict[str, bytes]) -> None:
        lines = members[name].splitlines()
        lines[number] = json.dumps(json.loads(lines[number]) | values).encode()
        members[name] = b"\n".join(lines) + b"\n"

    return change


def in_metadata(**values: Any) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        metadata = json.loads(members["chunks.jsonl"].splitlines()[0])["metadata"]
        in_line("chunks.jsonl", metadata=metadata | values)(members)

    return change


def in_manifest(**values: Any) -> Callable[[dict[str, bytes]], None]:
    return in_line("manifest", **values)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def repeated(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.update({name: members[name] + members[name]})


def removed(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.pop(name)


HOSTILE: dict[str, tuple[Callable[[dict[str, bytes]], Any], str]] = {
    "a name with ..": (lambda m: m.update({"../../evil.py": b"x"}), "unknown member"),
    "an absolute name": (lambda m: m.update({"/etc/passwd": b"x"}), "unknown member"),
    "a database": (lambda m: m.update({"data.sqlite": b"SQLite format 3"}), "unknown member"),
    "a bomb": (
        lambda m: m.update({"added.jsonl": b" " * (archive._FREE_BYTES + 45_000_000)}),
        "times its size",
    ),
    "a long line": (lambda m: m.update({"chunks.jsonl": b" " * (9 << 20)}), "has a line of"),
    "no vectors": (removed("vectors.f32"), "vectors.f32 is missing"),
    "too few vectors": (lambda m: m.update({"vectors.f32": m["vectors.f32"][:-4]}), "too short"),
    "too many vectors": (repeated("vectors.f32"), "has more than"),
    "vectors of NaN": (
        lambda m: m.update({"vectors.f32": b"\xff" * len(m["vectors.f32"])}),
        "length is not 1",
    ),
    "chunks twice": (repeated("chunks.jsonl"), "other chunks"),
    "documents twice": (repeated("documents.jsonl"), "not sorted"),
    "huge counts": (in_line("documents.jsonl", chunks=2**31 - 1), "wrong state or count"),
    "huge counts everywhere": (
        lambda m: (
            in_manifest(chunks=2**31 - 1)(m),
            in_line("documents.jsonl", chunks=2**31 - 1)(m),
        ),
        "lacks a chunk",
    ),
    "negative counts": (in_line("documents.jsonl", chunks=-1), "out of range"),
    "a count of text": (in_line("documents.jsonl", attempts="1"), "out of range"),
    "a document without chunks": (in_line("documents.jsonl", chunks=0), "lacks a chunk"),
    "ready without an index": (
        lambda m: m.update(
            {"documents.jsonl": m["documents.jsonl"].replace(b'"language"', b'"tongue"')}
        ),
        "no language",
    ),
    "no text": (in_line("chunks.jsonl", text=None), "a text is missing"),
    "NUL": (in_line("chunks.jsonl", text="\0"), "NUL"),
    "half a character": (in_line("chunks.jsonl", context="\ud800"), "not valid Unicode"),
    "no JSON": (lambda m: m.update({"chunks.jsonl": b"[1]\n"}), "is not a JSON object"),
    "NaN": (lambda m: m.update({"chunks.jsonl": b'{"text": NaN}\n'}), "is not a JSON object"),
    "nested lines": (
        lambda m: m.update({"chunks.jsonl": b"[" * 100_000 + b"\n"}),
        "is not a JSON object",
    ),
    "metadata of many levels": (in_metadata(x=deep(200)), "wrong metadata"),
    "metadata without lines": (in_metadata(line_start="1"), "wrong metadata"),
    "a page of text": (in_metadata(page="<b>"), "wrong metadata"),
    "NUL in metadata": (in_metadata(x="\0"), "NUL"),
    "numbers of others": (in_line("words.jsonl", numbers=[99_999]), "expected integers"),
    "numbers of text": (in_line("words.jsonl", numbers=["1"]), "expected a list of integers"),
    "numbers nested": (in_line("words.jsonl", numbers=[[1]]), "expected a list of integers"),
    "positions outside": (in_line("words.jsonl", 1, positions=[60_000]), "expected integers"),
    "postings twice": (repeated("words.jsonl"), "in two segments"),
    "no words": (lambda m: m.update({"words.jsonl": b""}), "lacks passages"),
    "terms unsorted": (in_line("words.jsonl", 1, terms=["b", "a"]), "not sorted"),
    "an added document of a source": (in_line("added.jsonl", uri="docs/1.md"), "not an added"),
    "added data": (in_line("added.jsonl", data="%"), "is not base64"),
    "no manifest of ours": (in_manifest(format="other"), "not that of a pack"),
    "a newer version": (in_manifest(version=2), "upgrade with"),
    "a wrong index": (in_manifest(index={"dimension": "x"}), "lacks a value"),
    "a huge dimension": (
        lambda m: in_manifest(
            index=json.loads(m["manifest"])["index"] | {"dimension": 10**9},
        )(m),
        "have the dimension",
    ),
    "other counts": (in_manifest(documents=5), "documents, not 5"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(good: bytes, target: Project, tmp_path: Path, name: str) -> None:
    """A pack of somebody with bad intent is refused, and changes nothing."""
    change, why = HOSTILE[name]
    assert why in refused(target, changed(good, change), tmp_path / "kb.lorebind")
    assert list(tmp_path.iterdir()) == [tmp_path / "kb.lorebind"]


def test_hostile_directories(good: bytes, target: Project, tmp_path: Path) -> None:
    """A directory of members that is too large, or has a member twice, is refused."""
    long = [f"{number}{'x' * 60_000}" for number in range(75)]
    for names, why in ((long, "directory of its members"), (["words.jsonl"] * 2, "unknown member")):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as opened, warnings.catch_warnings(action="ignore"):
            for name in names:
                opened.writestr(zipfile.ZipInfo(name), b"")
            opened.comment = b"sha256:" + b"0" * 64
        data = out.getvalue()[:-64]
        sealed = data + hashlib.sha256(data).hexdigest().encode()
        assert why in refused(target, sealed, tmp_path / "kb.lorebind")


def test_an_unchanged_copy_is_accepted(good: bytes, target: Project, tmp_path: Path) -> None:
    """The pack from which the hostile ones are made is good: only their change is refused."""
    assert {*MEMBERS} - {"terms.jsonl"} == {*zipfile.ZipFile(io.BytesIO(good)).namelist()} - {
        "manifest.json"
    }
    path = tmp_path / "kb.lorebind"
    path.write_bytes(changed(good, lambda members: None))
    assert target.knowledge_base("docs").unpack(path).documents["added"] == 13


OF_OTHERS = {
    "id": "mine",
    "provider": "openai",
    "model": "m",
    "api_key": "{{ .env.KEY_OF_THE_USER }}",
    "config": {"base_url": "https://evil.example/v1"},
}


def test_declared_by_the_file(empty_cli: Cli, good: bytes) -> None:
    """`unpack` declares a knowledge base that the project lacks, but nothing that needs trust."""
    root = empty_cli.root
    (root / "kb.lorebind").write_bytes(good)
    empty_cli.write({"lorebind.yaml": "name: mine\n"})
    done = empty_cli("knowledge", "unpack", "kb.lorebind", "copy")
    assert done.code == 0
    assert "declared copy as kb.lorebind has it" in done.out
    assert empty_cli("query", "copy", "-q", "zebras").code == 0
    as_json = json.loads(empty_cli("knowledge", "unpack", "kb.lorebind", "copy", "-o", "json").out)
    assert (as_json["texts_embedded"], as_json["strategy"]) == (0, "unpack")
    hostile = changed(
        good,
        in_manifest(
            declaration={
                "embedders": [OF_OTHERS],
                "knowledge_bases": [{"id": "docs", "embedder": "mine"}],
            }
        ),
    )
    (root / "kb.lorebind").write_bytes(hostile)
    before = (root / "lorebind.yaml").read_text()
    done = empty_cli("knowledge", "unpack", "kb.lorebind")
    assert (done.code, "needs trust" in done.err) == (2, True), done.err
    assert (root / "lorebind.yaml").read_text() == before
