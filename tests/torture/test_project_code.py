"""Projects that name code in a place where it does not belong: none of it is called."""

from __future__ import annotations

import json
import py_compile
import random
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from .forked_cli import ForkedCli
from .trials import Trials

GOOD = """\
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from lorebind import Extension
from lorebind_knowledge.middleware import Wrapper


class Mine(DeterministicFakeEmbedding):
    size: int = 8


class Loader(BaseLoader):
    def lazy_load(self):
        yield Document("Keys are rotated each month.", metadata={"source": "keys.md"})


class Store(InMemoryVectorStore):
    @classmethod
    def made(cls, embedding):
        return cls(embedding)


class Judge:
    def rerank(self, question, texts):
        return [1.0] * len(texts)


class Audit(Extension):
    pass


class Around(Wrapper):
    pass


def around():
    return Around()


def store(embedding):
    return Store(embedding)
"""

TRICKS = """\
import functools, os, subprocess, sys
from pathlib import Path

from langchain_core.embeddings import Embeddings

HERE = Path(__file__).parent


def called(*arguments, **settings):
    (HERE / "called").touch()


class Meta(type):
    @property
    def __mro__(cls):
        from lorebind import Extension
        return (cls, Embeddings, Extension, object)

    @property
    def __name__(cls):
        return "Extension"

    def __instancecheck__(cls, instance):
        return True

    def __subclasscheck__(cls, kind):
        return True

    def __call__(cls, *arguments, **settings):
        called()


class Lying(metaclass=Meta):
    pass


class Plain:
    def __init__(self, **settings):
        called()


class Born:
    def __new__(cls, **settings):
        called()


class Instance:
    __call__ = called

    @property
    def __class__(self):
        return type

    @property
    def __mro__(self):
        called()

    def __getattr__(self, name):
        called()
        raise AttributeError(name)


class Virtual:
    def __init__(self, **settings):
        called()


Embeddings.register(Virtual)


instance = Instance()
method = instance.__call__
partly = functools.partial(called)
cached = functools.lru_cache(called)
system, leave, run, Popen = os.system, os._exit, subprocess.run, subprocess.Popen
self = sys.modules[__name__]
nothing = None
number = 7
prop = property(called)
made = type("made", (), {"__init__": called})
ünïcode = Plain
"""
NAMES = [
    *("Lying", "Plain", "Born", "Virtual", "instance", "method", "partly", "cached", "system"),
    *("leave", "run", "Popen", "self", "nothing", "number", "prop", "made", "ünïcode", "missing"),
]
FAILING = {
    "fails": "1 / 0",
    "leaves": "raise SystemExit(5)",
    "garbled": "def (",
    "binary": "\0",
    "loops": "def f(): f()\nf()",
    "asks": "def __getattr__(name): raise OSError(name)",
    "absent": "import nowhere_at_all",
}
DYING = "import os; os._exit(9)"
STANDARD = [
    *("os:system", "builtins:exec", "builtins:eval", "posix:_exit", "os:abort", "os:fork"),
    *("ctypes:CDLL", "antigravity:fly_capsule", "this:s", "subprocess:Popen", "subprocess:run"),
    *("pty:spawn", "code:interact", "runpy:run_path", "importlib:import_module", "sys:exit"),
    *("webbrowser:open", "shutil:rmtree", "os.path:join", "pathlib:Path", "turtledemo.clock:main"),
    *("idlelib.idle:x", "lib2to3.__main__:x", "pickle:loads", "faulthandler:_sigsegv"),
]
MALFORMED = [
    *("..tricks:Plain", "../tricks:Plain", "tricks.:Plain", ".tricks:Plain", "tricks:Plain.x"),
    *("tricks:", "tri cks:Plain", "tricks:Plain()", "tricks:\u202ePlain", "a\u0000b:c", "1:2"),
    *("pytest.__main__:x", "pip.__main__:x", "good.__main__:x", "_lorebind_project_x.good:Mine"),
    *("tricks:__class__.__init__", "/etc/passwd:x", "linked:Plain", "outside.tricks:Plain"),
]
INSTALLED = [
    *("yaml:Loader", "typer:launch", "typer:run", "numpy:save", "pydantic:BaseModel"),
    *("httpx:get", "pytest:main", "rich:print", "lorebind.cli:main", "lorebind:Project"),
    *("lorebind_config.plugins:import_extra", "langchain_core.load:loads", "nowhere:x"),
    *("ｏｓ:system", "current:X", f"{'long' * 99}:x", "tricks2.deep:x", "yaml:missing"),
    "__main__:main",
]
"""Paths that only the place of a wrapper accepts."""
SAFE_WRAPPERS = {"yaml:Loader", "numpy:save", "pydantic:BaseModel", "nowhere:x", "current:X"}
"""Those of the paths that are not functions; a function may create a wrapper, and is called."""

PLACES = {
    "embedder": ["good:Mine"],
    "store": ["good:Store"],
    "factory": ["good:store", "good:Store.made"],
    "loader": ["good:Loader"],
    "judge": ["good:Judge"],
    "wrapper": ["good:Around", "good:around"],
    "extension": ["good:Audit"],
}


def hostile(case: random.Random, place: str) -> str:
    """Return the path of an object that does not belong in a place."""
    kind = case.randrange(6)
    if kind == 0:
        return case.choice(STANDARD)
    if kind == 1:
        return case.choice(MALFORMED)
    if kind == 2:
        fits = [path for path in INSTALLED if place != "wrapper" or path in SAFE_WRAPPERS]
        return case.choice(fits)
    if kind == 3:
        return f"{case.choice([*FAILING, 'dying'])}:x"
    if kind == 4:
        others = [path for other, good in PLACES.items() if other != place for path in good]
        if place == "wrapper":
            others = [path for path in others if path[5].isupper() and "." not in path]
        return case.choice(others)
    return f"tricks:{case.choice(NAMES if place == 'wrapper' else [*NAMES, 'called'])}"


SHELL, STATUS = {"command": "touch called"}, {"status": 3}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "os:system": SHELL,
    "tricks:system": SHELL,
    "posix:_exit": STATUS,
    "tricks:leave": STATUS,
    "ctypes:CDLL": {"name": None},
    **{path: {"args": "true"} for path in ("subprocess:run", "subprocess:Popen", "tricks:run")},
    "tricks:Popen": {"args": "true"},
    "shutil:rmtree": {"path": "x"},
}
"""Arguments that some of them need to be called."""


def declared(paths: dict[str, str]) -> dict[str, Any]:
    declared = {
        place: {
            "factory" if place == "factory" else "class": path,
            "config": ARGUMENTS.get(path, {}),
        }
        for place, path in paths.items()
    }
    loader = {"type": "langchain", **declared["loader"]}
    return {
        "name": "p",
        "embedders": [{"id": "e", "provider": "langchain", **declared["embedder"]}],
        "vector_dbs": [
            {"id": "m", "type": "memory"},
            {"id": "v", "type": "langchain", "persistent": False, **declared["store"]},
            {"id": "f", "type": "langchain", "persistent": False, **declared["factory"]},
        ],
        "knowledge_bases": [
            {
                "id": "docs",
                "sources": [loader],
                "ingest": "on_start",
                "retrieval": {"strategy": "rerank", "rerank": declared["judge"]},
            },
            {"id": "more", "sources": [loader], "ingest": "on_start", "vector_db": "v"},
            {"id": "made", "sources": [loader], "ingest": "on_start", "vector_db": "f"},
        ],
        "wrappers": [{"type": "python", **declared["wrapper"]}],
        "extensions": [{"provider": "python", **declared["extension"]}],
    }


@pytest.fixture(scope="module")
def cli() -> Iterator[ForkedCli]:
    cli = ForkedCli()
    yield cli
    cli.close()


LOOKING = [
    *("ask PROJECT keys", "validate -p PROJECT", "bindings explain -p PROJECT"),
    *("knowledge export -p PROJECT", "trust PROJECT"),
]
"""Commands that import no project code, or that are not trusted yet to do so."""
WORKING = [
    *("knowledge list -p PROJECT", "knowledge plan docs -p PROJECT"),
    *("knowledge query docs -q keys -p PROJECT", "knowledge query more -q keys -p PROJECT"),
    *("knowledge ingest -p PROJECT", "doctor -p PROJECT", "ask PROJECT keys"),
]


def test_nothing_is_called_that_does_not_belong(
    trials: Trials, tmp_path: Path, cli: ForkedCli
) -> None:
    """Misplaced code is never called; `ask`, `validate`, `explain` and `trust` import nothing."""

    def check(case: random.Random) -> None:
        paths = {place: case.choice(good) for place, good in PLACES.items()}
        wrong = case.sample(sorted(PLACES), case.choice([0, 1, 1, 1, 2, 6]))
        paths |= {place: hostile(case, place) for place in wrong}
        folder = tmp_path / f"{case.getrandbits(64):x}"
        root, here = folder / "project", folder / "here"
        (root / "tricks2").mkdir(parents=True)
        here.mkdir()
        modules = {"good": GOOD, "tricks": TRICKS, "dying": DYING, **FAILING}
        for name, text in modules.items():
            (root / f"{name}.py").write_text(text, encoding="utf-8")
        (root / "good.abi3.so").write_bytes(b"no module")
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        (folder / "evil.py").write_text(f"open({str(root / 'called')!r}, 'w')")
        for name in ("good", "tricks"):
            cached = cache_from_source(str(root / f"{name}.py"))
            py_compile.compile(str(folder / "evil.py"), cached, invalidation_mode=unchecked)
        for name in ("current", "tricks2", "nowhere"):
            (here / f"{name}.py").write_text(f"open({str(root / 'called')!r}, 'w')")
        (folder / "tricks.py").write_text(TRICKS, encoding="utf-8")
        (root / "linked.py").symlink_to("../tricks.py")
        (root / "outside").symlink_to("..")
        (root / "lorebind.yaml").write_text(json.dumps(declared(paths)), encoding="utf-8")

        dies = "dying:x" in paths.values()
        lines = [*LOOKING, *([] if dies else WORKING)]
        commands = [
            [str(root) if word == "PROJECT" else word for word in line.split()] for line in lines
        ]
        done = cli.run(str(here), commands, LOREBIND_HOME=str(folder / "home"))
        printed = "\n".join(f"{run['code']} {run['text']}" for run in done)
        about = f"{paths}\n{printed}"

        assert len(done) == len(commands), f"it has left by itself: {about}"
        was_called = any((place / "called").exists() for place in (root, here))
        assert not was_called, f"something was called: {about}"
        assert not done[-1]["watched"], f"{done[-1]['watched']}: {about}"
        assert {run["code"] for run in done} <= {0, 1, 2}, about
        assert "Traceback" not in printed, about
        assert not done[len(LOOKING) - 1]["imported"], about
        assert done[0]["code"] == 2, about
        assert "lorebind trust" in done[0]["text"] or "lorebind.yaml:1:" in done[0]["text"], about
        if not wrong:
            assert [run["code"] for run in done[1:]] == [0] * (len(done) - 1), about
        elif not dies:
            assert any(
                paths[place] in printed or repr(paths[place]) in printed for place in wrong
            ), about

    trials.run("code that does not belong is not called", check, short=3, full=200)
