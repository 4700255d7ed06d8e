"""The modules of a project folder, which are run from the very bytes that were read and shown.

Python's own import would look further than the file that a project names: for a package or an
extension of the same name, and for a cached `.pyc`, which is run without a look at its source.
Here, a module is one source file, and nothing else in the folder is ever imported.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lorebind_config.errors import UsageError
from lorebind_config.project_files import OutsideError, open_inside

PACKAGES = "_lorebind_project_"
"""The prefix of the packages that represent project folders; a hash of the folder follows."""


class RefusedCodeError(UsageError):
    """A path that cannot name code of a project, whatever packages are installed."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module of a project folder, as it was read."""

    name: str
    """The name relative to the folder, such as `package.module`."""
    file: Path
    source: bytes

    @property
    def is_package(self) -> bool:
        return self.file.name == "__init__.py"


def locate(root: Path, name: str, named: str = "") -> Path | None:
    """Return the file of a module in a folder; None if there is none.

    Args:
        root: the real path of the folder.
        name: the module, relative to the folder.
        named: what messages call it; by default its name.

    Raises:
        RefusedCodeError: two files have this name, or a link leads out of the folder.
    """
    stem = root.joinpath(*name.split("."))
    files = list(filter(os.path.isfile, (stem.with_suffix(".py"), stem / "__init__.py")))
    if len(files) > 1:
        both = " and ".join(str(file.relative_to(root)) for file in files)
        raise RefusedCodeError(
            f"{(named or name)!r} is ambiguous: {both} exist", "remove one of them"
        )
    if files and not (real := files[0].resolve()).is_relative_to(root):
        raise RefusedCodeError(f"{(named or name)!r} leads out of the project folder, to {real}")
    return files[0] if files else None


def read_modules(root: Path, name: str, cache: dict[str, Module]) -> dict[str, Module]:
    """Read every module of a folder that importing one runs: itself, its packages, and the modules
    that these import relatively, also inside of functions. Nothing is run.

    Args:
        root: the real path of the folder.
        name: the module, relative to the folder.
        known: the modules that were read before, which are not read again; receives the others.

    Raises:
        RefusedCodeError: as for `locate`.
        UsageError: a file cannot be read.
    """
    modules: dict[str, Module] = {}
    names = [name]
    while names:
        steps = names.pop().split(".")
        for depth in range(1, len(steps) + 1):
            inner = ".".join(steps[:depth])
            if inner not in modules and (file := locate(root, inner)) is not None:
                modules[inner] = cache[inner] = cache.get(inner) or _read(root, inner, file)
                names += _relative_imports(modules[inner])
    return modules


def package_of(root: Path) -> str:
    """Return the name of the package that represents a project folder; create it if needed."""
    name = _name_of(root)
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = []  # no other finder looks into the folder
        _FINDER.folders.setdefault(name, _Folder(root))
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        sys.modules.setdefault(name, package)
    return name


def run_only(root: Path, modules: Mapping[str, Module]) -> None:
    """From now on, run only these modules of a folder, as they were read."""
    package = package_of(root)
    _FINDER.folders[package] = _Folder(root, modules)
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        del sys.modules[name]  # it was imported before, maybe from other bytes


def loaded_modules(root: Path) -> dict[str, Module]:
    """Return the modules of a folder that were imported, with the bytes that ran, by name."""
    prefix = f"{_name_of(root)}."
    loaders = {
        name.removeprefix(prefix): module.__loader__
        for name, module in list(sys.modules.items())
        if name.startswith(prefix)
    }
    return {
        name: Module(name, Path(loader.path), loader.get_data(loader.path))
        for name, loader in loaders.items()
        if isinstance(loader, _Loader)
    }


def is_allowed(root: Path, name: str) -> bool:
    """Check whether a module is one of those that `run_only` allows."""
    folder = _FINDER.folders.get(_name_of(root))
    return folder is not None and name in (folder.allowed or ())


def _name_of(root: Path) -> str:
    return f"{PACKAGES}{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class _Folder:
    root: Path
    allowed: Mapping[str, Module] | None = None
    """The only modules that may run; None allows all."""

    def module(self, name: str) -> Module | None:
        if self.allowed is not None and name in self.allowed:
            return self.allowed[name]
        file = locate(self.root, name)
        if file is None:
            return None
        if self.allowed is not None:
            raise ImportError(
                f"{file.relative_to(self.root)} was not shown when trust was asked for; import it "
                "with a statement such as 'from . import name', which can be found without running "
                "it"
            )
        return _read(self.root, name, file)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of project folders, and no others."""

    def __init__(self) -> None:
        self.folders: dict[str, _Folder] = {}
        """The folders by the name of their package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.partition(".")
        folder = self.folders.get(package)
        if folder is None or not name:
            return None
        module = folder.module(name)
        if module is None:
            is_folder = folder.root.joinpath(*name.split(".")).is_dir()
            # Without a loader it is a namespace: a package without code.
            return _spec(fullname, None, None, True) if is_folder else None
        file = str(module.file)
        return _spec(fullname, _Loader(fullname, file, module.source), file, module.is_package)


_FINDER = _Finder()


def _spec(
    name: str, loader: _Loader | None, file: str | None, is_package: bool
) -> importlib.machinery.ModuleSpec:
    spec = importlib.machinery.ModuleSpec(name, loader, origin=file, is_package=is_package)
    spec.has_location = file is not None  # sets `__file__`
    return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs a module from its source, without a look at the file or at a cached `.pyc`."""

    def __init__(self, fullname: str, path: str, source: bytes) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self._source, self.path)

    def get_data(self, path: str) -> bytes:
        return self._source if path == self.path else super().get_data(path)


def _read(root: Path, name: str, file: Path) -> Module:
    try:
        with open_inside(root, file.relative_to(root)) as opened:
            return Module(name, file, opened.read())
    except (OSError, OutsideError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', error)}") from error


def _relative_imports(module: Module) -> Iterator[str]:
    """Yield the names of everything that a module imports relatively and that can be a module."""
    package = module.name.split(".")[: None if module.is_package else -1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shown when the module is run
            tree = ast.parse(module.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # importing it fails too, or what it imports is refused as not shown
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(package) + 1:
            base = package[: len(package) + 1 - node.level]
            base += node.module.split(".") if node.module else []
            for names in (base, *([*base, alias.name] for alias in node.names)):
                if names and "*" not in names:
                    yield ".".join(names)
