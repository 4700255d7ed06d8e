"""Code that a project names: where it is found, and what is refused before it is called."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from lorebind_config import project_code
from lorebind_config.checks.named_code import named_class, named_factory, named_part
from lorebind_config.declarations.wrappers import PythonWrapper
from lorebind_config.errors import ConfigurationError, UsageError
from lorebind_config.project_code import import_of_project
from lorebind_config.project_modules import run_only
from lorebind_config.reading.loading import load_project
from lorebind_config.templates import Environment
from lorebind_knowledge.stores.langchain.declaration import LangChainVectorDB
from tests.processes import run_program

PROJECT = """\
name: p
embedders:
  - id: mine
    provider: langchain
    class: "{}"
vector_dbs:
  - {{ id: db, type: langchain, class: "{}" }}
  - id: made
    type: langchain
    factory: "{}"
    config: {{ a: {{ factory: "{}", config: {{ b: {{ class: "{}" }} }} }} }}
knowledge_bases:
  - id: docs
    sources: [{{ type: langchain, class: "{}" }}]
    retrieval: {{ strategy: rerank, rerank: {{ class: "{}" }} }}
wrappers:
  - "{}"
  - {{ type: python, class: "{}" }}
extensions: [{{ provider: python, class: "{}" }}]
workflows:
  - id: w
    knowledge_bases:
      - {{ id: own, sources: [{{ type: langchain, class: "{}" }}] }}
    tasks: [{{ id: t, prompt: x }}]
"""
PLACES = PROJECT.count("{}")


def project(root: Path, path: str) -> Path:
    (root / "lorebind.yaml").write_text(PROJECT.format(*[path] * PLACES), encoding="utf-8")
    return root


def test_modules_of_two_projects_do_not_meet(tmp_path: Path) -> None:
    """Each folder has modules of its own, and none of them shadows a library."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "json.py").write_text(f"NAME = {name!r}", encoding="utf-8")
        (tmp_path / name / "yaml.py").write_text("", encoding="utf-8")
    assert import_of_project("json:NAME", tmp_path / "a") == "a"
    assert import_of_project("json:NAME", tmp_path / "b") == "b"
    assert json.dumps({}) == "{}"
    import yaml

    assert import_of_project("yaml.nodes:Node", tmp_path / "b") is yaml.nodes.Node


def test_a_path_stays_in_the_project(tmp_path: Path) -> None:
    """Links and dotted paths cannot leave the project; an invalid path is refused."""
    outside = tmp_path / "outside.py"
    outside.write_text("x = 1", encoding="utf-8")
    root = tmp_path / "project"
    (root / "package").mkdir(parents=True)
    (root / "linked.py").symlink_to(outside)
    (root / "package" / "__init__.py").symlink_to(outside)
    (root / "package" / "own.py").write_text("x = 1", encoding="utf-8")
    for path in ("linked:x", "package.own:x"):
        with pytest.raises(UsageError, match="leads out of the project folder"):
            import_of_project(path, root)
    for path in (
        "..outside:x",
        "../outside:x",
        "a b:x",
        "linked",
        "a:b.c.d",
        "a:b.",
        ".a:b",
        "a:",
        f"{'.a' * 9}:b",
    ):
        with pytest.raises(UsageError, match="is not of the form"):
            import_of_project(path, root)
    for path in ("nowhere:x", f"{'a' * 999}:x", "ｏｓ:system"):
        with pytest.raises(UsageError, match=r"cannot be imported: .*; put .*\.py into the proj"):
            import_of_project(path, root)


def test_modules_that_fail_are_named(tmp_path: Path) -> None:
    """Errors during an import or an attribute access name the module, whatever they are."""
    broken = {
        "divides": "1 / 0",
        "leaves": "raise SystemExit(0)",
        "garbled": "def",
        "asks": "def __getattr__(name): raise OSError(name)",
    }
    for name, text in broken.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    for name, says in {
        "divides": r"from divides\.py: ZeroDivisionError",
        "leaves": r"from leaves\.py: SystemExit: 0",
        "garbled": r"from garbled\.py: SyntaxError",
        "asks": "OSError: x",
    }.items():
        with pytest.raises(UsageError, match=f"'{name}:x' cannot be imported.*{says}"):
            import_of_project(f"{name}:x", tmp_path)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("os:system", "'os:system' is in Python's standard library"),
        ("builtins:exec", "'builtins:exec' is in Python's standard library"),
        ("antigravity:x", "'antigravity:x' is in Python's standard library"),
        ("os.path:join", "'os.path:join' is in Python's standard library"),
        ("pytest.__main__:x", "'pytest.__main__:x' is a program"),
        ("a b:c", "'a b:c' is not of the form 'package.module:Class'"),
        ("linked:x", "'linked:x' leads out of the project folder"),
    ],
)
def test_validation_refuses_what_no_project_may_name(tmp_path: Path, path: str, says: str) -> None:
    """Every setting that names code is checked, with file, line and column, without importing."""
    (tmp_path / "linked.py").symlink_to(__file__)
    with pytest.raises(ConfigurationError) as caught:
        load_project(project(tmp_path, path))
    assert len(caught.value.problems) == PLACES
    assert all(problem.line and says in problem.message for problem in caught.value.problems)
    assert "antigravity" not in sys.modules


def test_validation_runs_nothing_of_the_folder(tmp_path: Path) -> None:
    """A module of the folder is located but not imported."""
    (tmp_path / "mine.py").write_text("1 / 0", encoding="utf-8")
    assert load_project(project(tmp_path, "mine:X")).project.name == "p"


def test_a_method_is_named_for_a_factory_only(tmp_path: Path) -> None:
    """A path to a method is refused where a class is expected."""
    path = "package.module:Class.method"
    with pytest.raises(ConfigurationError) as caught:
        load_project(project(tmp_path, path))
    problems = caught.value.problems
    assert {problem.message for problem in problems} == {
        f"{path!r} is not of the form 'package.module:Class'"
    }
    assert [problem.line for problem in problems if 6 < problem.line < 12] == [7, 11]


METHODS = """\
import pathlib, random

class Meta(type):
    def __getattribute__(cls, name):
        raise SystemExit(name)


class Store(metaclass=Meta):
    @classmethod
    def made(cls, embedding):
        return cls

    @staticmethod
    def alone(embedding):
        return embedding

    def of_an_object(self, embedding):
        pass

    @property
    def asked(self):
        pass

    class Inner:
        pass


class Derived(Store):
    pass


thing = type("Thing", (), {"made": lambda embedding: None})()
"""


def test_a_class_method_is_a_factory(tmp_path: Path) -> None:
    """Own and inherited class methods are found without running code of the class."""
    (tmp_path / "methods.py").write_text(METHODS, encoding="utf-8")
    derived = import_of_project("methods:Derived", tmp_path)
    factory = import_of_project("methods:Derived.made", tmp_path)
    assert factory("x") is derived
    assert import_of_project("methods:Store.alone", tmp_path)("x") == "x"
    assert project_code.is_factory(factory)
    assert project_code.is_factory(factory, ["embedding"])
    assert not project_code.is_factory(factory, ["embeddings"])
    assert project_code.described(factory) == "a function of methods"
    for name in ("Store.of_an_object", "Store.asked", "Store.Inner", "Store.missing", "thing.made"):
        with pytest.raises(UsageError, match=f"'methods:{name}' cannot be imported: .* has no cla"):
            import_of_project(f"methods:{name}", tmp_path)
    for name in ("pathlib.Path", "random.random"):
        with pytest.raises(UsageError, match="a module has no class method or static method"):
            import_of_project(f"methods:{name}", tmp_path)


def test_what_makes_an_argument(tmp_path: Path) -> None:
    """A third-party class or function makes an argument; ours and the standard library's do not."""
    text = "from pathlib import Path\nfrom lorebind_config.errors import UsageError\n"
    text += "from json import dumps\nclass Own: pass\ndef own(): pass\nthing = Own()\n"
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    environment = Environment(tmp_path, {})
    place = ("config", "a", "factory")

    def named(path: str) -> Any:
        data = {"id": "db", "type": "langchain", "class": "a:B", "config": {"a": {"factory": path}}}
        return named_part(LangChainVectorDB.model_validate(data), environment, place)

    for path in ("mine:Own", "mine:own", "yaml:Loader", "yaml:dump"):
        assert callable(named(path))
    for name in ("Path", "Path.cwd", "UsageError", "dumps", "thing"):
        with pytest.raises(
            UsageError, match=f"vector database 'db': mine:{name} is .*; expected a"
        ):
            named(f"mine:{name}")


TRICKS = """\
CALLED = []


def note(*arguments, **settings):
    CALLED.append(arguments)


class Meta(type):
    @property
    def __mro__(cls):
        from langchain_core.embeddings import Embeddings

        return (cls, Embeddings, object)

    def __instancecheck__(cls, instance):
        return True

    def __subclasscheck__(cls, kind):
        return True

    def __call__(cls, *arguments, **settings):
        CALLED.append("class")


class Lying(metaclass=Meta):
    pass


class Instance:
    def __call__(self, *arguments, **settings):
        CALLED.append("instance")

    @property
    def __class__(self):
        return type


instance = Instance()
exit = __import__("os")._exit
run = __import__("subprocess").run
partly = __import__("functools").partial(note)
"""


@pytest.mark.parametrize("name", ["note", "Lying", "instance", "exit", "run", "partly", "CALLED"])
def test_what_is_no_class_of_its_kind_is_not_called(tmp_path: Path, name: str) -> None:
    """Objects that only claim to be a class of the expected kind are refused without a call."""
    (tmp_path / "tricks.py").write_text(TRICKS, encoding="utf-8")
    declared: Any = PythonWrapper.model_validate({"type": "python", "class": f"tricks:{name}"})
    environment = Environment(tmp_path, {})
    with pytest.raises(UsageError, match=f"wrapper: tricks:{name} is .*; expected an embedder"):
        named_class(declared, environment, "an embedder", Embeddings)
    if name != "note":
        with pytest.raises(UsageError, match="or a function from the project folder or an inst"):
            named_factory(declared, environment, "an embedder", Embeddings)
    with pytest.raises(UsageError, match="with a parameter 'inner'"):
        named_factory(declared, environment, "an embedder", Embeddings, takes=("inner",))
    assert import_of_project("tricks:CALLED", tmp_path) == []


def test_functions_of_lorebind_are_no_factories() -> None:
    """Functions of Lorebind or the standard library are refused, by any name."""
    assert not project_code.is_factory(import_of_project)
    assert not project_code.is_factory(json.dumps)
    assert project_code.is_factory(test_functions_of_lorebind_are_no_factories)


@pytest.mark.parametrize("inside", [True, False], ids=["the project's", "the current folder's"])
def test_the_current_folder_is_not_looked_into(tmp_path: Path, inside: bool) -> None:
    """A module that only the current folder has is refused; the project's own is found."""
    root, here = tmp_path / "project", tmp_path / "here"
    for folder in (root, here):
        folder.mkdir()
    (here / "mine.py").write_text("X = 'current'", encoding="utf-8")
    (here / "yaml").mkdir()  # a folder of that name shadows no package
    if inside:
        (root / "mine.py").write_text("X = 'project'", encoding="utf-8")
    program = (
        "import sys; from pathlib import Path\n"
        "from lorebind_config.errors import UsageError\n"
        "from lorebind_config.project_code import import_of_project\n"
        "assert sys.path[0] == ''\n"
        "import_of_project('yaml:dump', Path(sys.argv[1]))\n"
        "try: print(import_of_project('mine:X', Path(sys.argv[1])))\n"
        "except UsageError as error: print(error)\n"
    )
    done = run_program([sys.executable, "-c", program, str(root)], cwd=here, check=True)
    assert done.stdout.strip() == "project" if inside else "the current folder" in done.stdout


TOOLS = """\
import pickle
from dataclasses import dataclass
from importlib import resources

from pydantic import BaseModel

from . import parts


@dataclass
class Point:
    x: int
    label: "str" = "a"


class Settings(BaseModel):
    points: "list[Part]"


class Part(BaseModel):
    name: str


def fails():
    raise ValueError("a line of the module")


def copied():
    return pickle.loads(pickle.dumps((Point(1), Settings(points=[Part(name="n")]))))


def read():
    return resources.files(__package__).joinpath("data.txt").read_text()
"""


def test_modules_behave_as_imported_ones(tmp_path: Path) -> None:
    """Pickles, annotations as text, sources, tracebacks and data files of a package work."""
    package = tmp_path / "tools"
    package.mkdir()
    for name, text in {
        "__init__.py": TOOLS, "parts.py": "X = 1", "data.txt": "data"
    }.items():  # fmt: skip
        (package / name).write_text(text, encoding="utf-8")
    point, settings = import_of_project("tools:copied", tmp_path)()
    assert (point.x, settings.points[0].name) == (1, "n")
    assert import_of_project("tools:read", tmp_path)() == "data"
    fails = import_of_project("tools:fails", tmp_path)
    assert "a line of the module" in inspect.getsource(fails)
    with pytest.raises(ValueError, match="a line") as caught:
        fails()
    assert str(caught.traceback[-1].statement).strip() == 'raise ValueError("a line of the module")'
    module = inspect.getmodule(fails)
    assert module is not None
    assert (module.__file__, module.parts.X) == (str(package / "__init__.py"), 1)
    assert importlib.reload(module) is module
    assert not (package / "__pycache__").exists()


def test_modules_are_read_once(tmp_path: Path) -> None:
    """`run_only` fixes what a folder runs: later files have no effect, and missing ones none."""
    file = tmp_path / "mine.py"
    file.write_text("X = 1", encoding="utf-8")
    modules = project_code.modules_of_project("mine:X", tmp_path, {})
    file.write_text("X = 2", encoding="utf-8")
    assert import_of_project("mine:X", tmp_path) == 2
    run_only(tmp_path, modules)
    assert import_of_project("mine:X", tmp_path) == 1
    (tmp_path / "yaml.py").write_text("dump = 1", encoding="utf-8")
    with pytest.raises(UsageError, match=r"yaml\.py was not shown when trust was asked for"):
        import_of_project("yaml:dump", tmp_path)
    file.unlink()
    run_only(tmp_path, modules)
    assert import_of_project("mine:X", tmp_path) == 1
