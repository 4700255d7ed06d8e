"""Projects with mutated files: each is loaded, or each of its problems has a location."""

from __future__ import annotations

import copy
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lorebind_config.errors import ConfigurationError, Problem
from lorebind_config.reading.loading import load_project
from tests.bindings.helpers import write
from tests.knowledge import mistaken_project

from .trials import Trials

EXAMPLES = Path(__file__).parents[2] / "examples"

VALUE, LITERAL = "value-of-a-variable", "sk-literal-in-a-file"
"""Texts that no message may contain."""
ENVIRON = dict.fromkeys((*mistaken_project.ENVIRON, "PGVECTOR_DSN", "KEY", "HOST"), VALUE)

EVERYTHING = """\
name: everything
description: Shows {{ .env.X }} to people
embedders:
  - { id: words, provider: hashing, config: { dimension: 64 } }
  - id: far
    provider: openai
    model: text-embedding-3-small
    api_key: "{{ .env.OPENAI_API_KEY }}"
    price_per_million_tokens: 0.02
    config: { base_url: "{{ .env.HOST }}/v1", dimension: 512, retry: { attempts: 3 } }
  - id: other
    provider: langchain
    class: "package.module:Class"
    api_key: "{{ .env.KEY }}"
    config: { retries: 3, headers: { authorization: "Bearer {{ .secrets.KEY }}" } }
vector_dbs:
  - { id: file, type: sqlite, config: { path: "{{ .env.DATA }}/x.db" } }
  - id: server
    type: pgvector
    config: { dsn: "{{ .secrets.KEY }}", metric: cosine, pool: { min_size: 1 } }
  - id: points
    type: qdrant
    config: { url: "https://example.com:6333", auth: { api_key: "{{ .env.KEY }}" } }
    catalog: { dsn: "{{ .env.KEY }}" }
knowledge_bases:
  - id: docs
    embedder: words
    vector_db: file
    ingest: on_start
    sources:
      - { type: file_glob, paths: ["docs/*"], exclude: ["docs/old*"], max_bytes: 99 }
      - { type: url, urls: ["{{ .env.HOST }}/x"], fetch: { allow: ["::1"], headers: { x: y } } }
      - { type: cloud_storage, provider: s3, bucket: b, config: { key: "{{ .env.KEY }}" } }
      - { type: inline, documents: [{ id: one, text: Some words., metadata: { year: 2024 } }] }
      - { type: media_transcript, provider: youtube, video_id: dQw4w9WgXcQ, languages: [de] }
    chunking: { strategy: semantic, semantic: { threshold: 0.5, window: 2 } }
    preprocess: { dedupe: true, remove_html: false }
    retrieval: { strategy: hybrid, fusion: { method: rrf }, stages: [{ min_score: 0.5 }], top_k: 8 }
    metadata: { tags: [a, b], año: 2024 }
knowledge:
  - { id: docs, max_tokens: 2000, fallback: "nothing", filters: { team: { $in: [a] } } }
models:
  - { id: big, provider: openai, model: gpt-x, api_key: "{{ .env.OPENAI_API_KEY }}" }
agents:
  - { id: helper, model: big, instructions: Help., knowledge: [{ id_ref: docs, top_k: null }] }
wrappers: [{ type: cache, ttl_seconds: 60 }]
autoload: { include: ["none/*.yaml"], exclude: ["**/draft*"] }
"""

PIECES = [
    *("{{", "}}", "{{ .env.KEY }}", "{{ .secrets.", "{{ .workflow.input.x }}", "{{ .tasks", ": "),
    *("- ", "\n", "\r", "\t", "[", "]", "{", "}", ",", "&a ", "*a", "<<: ", "<<: *a", "? ", "'"),
    *('"', "|", ">", "#", "%YAML 9.9\n", "---\n", "...\n", "!!set ", "!!python/name:a.b "),
    *("null", "~", "on", "012", "1e9", ".nan", "-.inf", "0x1", "9" * 400, "12:30:59", "2001-01-01"),
    *("\0", "\x07", "\x85", "\u2028", "\ufeff", "\u202e", "é", "ß", "😀", "!x ", "a" * 5000),
]  # fmt: skip
HOSTILE: list[Any] = [
    *(None, True, 0, -1, 10**400, 0.5, float("nan"), float("inf"), "", " ", "x" * 5000, "\u202e"),
    *("{{ .env.KEY }}", "{{ .env.MISSING }}", "{{", "{{ . }}", "../../x", "/etc", "**", "[", "\0"),
    *([], {}, [None], {"": None}, [[[]]], {"id": {"id": 1}}, ["x"] * 300, "package.module:Class"),
]  # fmt: skip


def edit_text(case: random.Random, text: str) -> str:
    """Remove, repeat, move or insert some characters or lines of a text."""
    for _ in range(case.randint(1, 6)):
        lines = text.splitlines(keepends=True) or [""]
        at, line = case.randrange(len(text) + 1), case.randrange(len(lines))
        match case.randrange(5):
            case 0:
                text = text[:at] + case.choice(PIECES) + text[at + case.randrange(8) :]
            case 1:
                text = text[:at] + chr(case.choice([9, 32, *range(33, 256)])) + text[at + 1 :]
            case 2:
                lines.insert(case.randrange(len(lines) + 1), lines[line])
                text = "".join(lines)
            case 3:
                del lines[line]
                text = "".join(lines)
            case _:
                lines[line] = case.choice([" ", "  ", "\t", "- ", "\n"]) + lines[line]
                text = "".join(lines)
    return text


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each mapping and list with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from nodes(value[key])


def edit_structure(case: random.Random, text: str) -> str:
    """Replace, remove or repeat some values, or change their keys."""
    data = yaml.safe_load(text)
    for _ in range(case.randint(1, 4)):
        places = list(nodes(data))
        if not places:
            break
        holder, key = case.choice(places)
        other, place = case.choice(places)
        match case.randrange(5):
            case 0:
                holder[key] = case.choice(HOSTILE)
            case 1:
                del holder[key]
            case 2 if LITERAL not in str(other[place]):
                holder[key] = copy.deepcopy(other[place])
            case 3 if isinstance(holder, dict):
                other_key = case.choice([f"{key}s", str(key)[1:], "", "on", 1, None, "<<"])
                holder[other_key] = holder.pop(key)
            case _:
                holder[key] = case.choice([[holder[key]], {"id": holder[key]}, [[holder[key]]]])
    return str(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))


def bomb(case: random.Random, text: str) -> str:
    """Append text that is small to write but large to read."""
    width, depth = case.choice([2, 9, 40]), case.choice([3, 9, 70, 900])
    layers = [f"b0: &b0 [{', '.join(['x'] * width)}]"]
    match case.randrange(6):
        case 0:
            layers += [
                f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * width)}]"
                for n in range(1, min(depth, 70))
            ]
        case 1:
            layers = ["b0: &b0 {a: 1}"]
            layers += [
                f"b{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * width)}], k{n}: 1}}"
                for n in range(1, min(depth, 70))
            ]
        case 2:
            layers = [f"deep: {'[' * depth * width}{']' * depth * width}"]
        case 3:
            layers = ["deep:", *(f"{' ' * n}- k:" for n in range(1, depth, 1))]
        case 4:
            layers = [f"k{n}: &k{n} {{<<: *k{max(n - 1, 0)}}}" for n in range(depth)]
        case _:
            layers = [
                f"{'k' * case.choice([1, 9000])}{n % width}: {'9' * depth}" for n in range(depth)
            ]
    where = case.choice(["\n", "\nmetadata:\n  "])
    return text + where + where.replace("metadata:", "").join(layers) + "\n"


class TooMuchWorkError(Exception):
    """A file needed more function calls than a file of its size should."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Limit the number of function calls of a block, independent of the machine."""
    left = calls

    def count(*event: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            sys.settrace(None)
            raise TooMuchWorkError

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(before)


def check_place(problem: Problem, root: Path, data: dict[str, bytes]) -> None:
    """Check that a problem has a message and a line in a file of the project."""
    assert problem.message.strip()
    assert problem.file in data, problem
    text = data[problem.file].decode(errors="replace")
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", text)
    assert 1 <= problem.line <= len(lines), problem
    assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, problem


def bases(folder: Path) -> list[Path]:
    """Return valid projects, each in its own folder."""
    names = ("extending", "langchain", "quickstart", "support")
    folders = [Path(shutil.copytree(EXAMPLES / name, folder / name)) for name in names]
    folders.append(write(folder / "several files", mistaken_project.FILES))
    folders.append(write(folder / "everything", {"lorebind.yaml": EVERYTHING}))
    for root in folders:
        load_project(root, environ=ENVIRON)
    return folders


def test_projects(trials: Trials, tmp_path: Path) -> None:
    """The result is a project, or problems with a location and no secrets."""
    projects = bases(tmp_path)

    def check(case: random.Random) -> None:
        root = case.choice([*projects[-2:], case.choice(projects)])
        files = sorted(root.rglob("*.yaml"))
        file = case.choice(files)
        before = file.read_bytes()
        text = before.decode()
        if case.random() < 0.3:
            text = re.sub(r'"[^"]*\{\{ \.(env|secrets)\.KEY \}\}"', LITERAL, text)
        edits: list[Callable[[random.Random, str], str]] = [edit_text, edit_structure, bomb]
        edit = case.choices(edits, [5, 4, 1])[0]
        changed = edit(case, text).encode("utf-8", "surrogatepass")
        if edit is edit_text and case.random() < 0.1:
            at = case.randrange(len(changed) + 1)
            changed = changed[:at] + case.randbytes(case.randint(1, 3)) + changed[at:]
        file.write_bytes(changed)
        data = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
        problems: list[Problem] = []
        try:
            with at_most(500_000 + 200 * sum(map(len, data.values()))):
                load_project(root, environ=ENVIRON)
        except ConfigurationError as error:
            problems = error.problems
            assert problems
        finally:
            file.write_bytes(before)
        for problem in problems:
            check_place(problem, root, data)
        printed = "\n".join(map(str, problems))
        assert VALUE not in printed
        assert LITERAL not in printed or edit is edit_text

    trials.run("projects", check, short=15, full=3_000)
