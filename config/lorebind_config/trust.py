"""Lists everything a project needs trust for: code to run, variables to send, and more.

`lorebind ask` shows the list for a project that its user has not trusted yet. To find it, nothing
is imported from the project folder. `.env` is read to show the hosts of variables. Variables of the
process are looked up to see whether they are set, and whether a path that contains one leaves the
folder; their values are never shown.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from urllib.parse import unquote

from lorebind_config import templates
from lorebind_config.checks.named_code import code_named
from lorebind_config.checks.template_checks import texts
from lorebind_config.declarations.agents import McpServerDeclaration
from lorebind_config.declarations.base import OUTSIDE, Declaration, Path, Position, Wants, within
from lorebind_config.declarations.kinds import is_plugins
from lorebind_config.declarations.values import leaves_project
from lorebind_config.errors import ConfigurationError
from lorebind_config.namespace import digest
from lorebind_config.project_code import modules_of_project
from lorebind_config.project_files import DATA_FOLDER, leads_to, written_to
from lorebind_config.project_modules import Module
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import load_project
from lorebind_config.redaction import is_secret_name, snake_case
from lorebind_config.templates import Environment, Reference, TemplateError, as_template, mentions

_ADDRESS_NAME = re.compile(
    r"(^|_)(ur[il]s?|dsn|endpoints?|hosts?|hostname|hostaddr|nodes?|server|address|domain|proxy"
    r"|base|connection(_?string)?|conninfo)$"
)
"""Names of settings that are an address, also where their value has no `://`."""
_AUTHORITY = re.compile(r"(?:^|:)//([^/?#\s;]*)")
_HOST_OF_DSN = re.compile(
    r"""(?:^|[\s?&'])(?:host|hostaddr|service)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|([^\s&]+))"""
)
"""The parameters by which a PostgreSQL DSN names its host; in a URL, they override it. A URL may
encode their names; elsewhere, there may be blanks around `=`, and quotes around values."""
_UNKNOWN = 0xE000
"""The first character of a private range, one of which stands for each value that is not shown."""
_SEND_NOTHING = ("workflow", "task", "agent", "edge", "channel")
"""Labels of declarations whose settings are texts and values, without addresses of their own."""
_VARS = ("workflow", "vars")
"""The beginning of templates whose values may come from variables."""


def hosts_of(declarations: Iterable[Declaration], environment: Environment) -> list[str]:
    """Return the hosts that declarations name, each once, as words or as `host:port`."""
    hosts: dict[str, None] = {}
    for declared in declarations:
        for field in declared.templated:
            for path, text in texts(getattr(declared, field)):
                hosts |= dict.fromkeys(_hosts(text, (field, *path), environment))
    return list(hosts)


def filled_in(text: str, environment: Environment) -> tuple[str, list[Reference]]:
    """Fill in the variables of `.env`; a private character stands for each other template.

    A variable that the process sets is not filled in, even if `.env` has it too.
    """
    unknown: list[Reference] = []
    filled = []
    for part in templates.parts(text):
        value: str | None = part if isinstance(part, str) else None
        if isinstance(part, tuple) and part[0] in ("env", "secrets"):
            value = environment.in_file(".".join(part[1:]))
        if value is None and isinstance(part, tuple):
            value = chr(_UNKNOWN + len(unknown))
            unknown.append(part)
        filled.append(value or "")
    return "".join(filled), unknown


def with_names(filled: str, unknown: list[Reference]) -> str:
    """Put the templates that `filled_in` did not fill in back into its text."""
    for number, reference in enumerate(unknown):
        filled = filled.replace(chr(_UNKNOWN + number), templates.as_template(reference))
    return filled


def _hosts(text: str, path: Path, environment: Environment) -> Iterator[str]:
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    is_address, is_secret = bool(_ADDRESS_NAME.search(snake_case(name))), is_secret_name(name)
    if is_secret and not is_address:
        return  # nothing of it is ever shown
    filled, unknown = filled_in(text, environment)
    hosts = [authority.rpartition("@")[2] for authority in _AUTHORITY.findall(filled)]
    if is_address:
        hosts += [quoted or plain for quoted, plain in _HOST_OF_DSN.findall(unquote(filled))]
    if is_address and not hosts and (not is_secret or len(filled) == len(unknown)):
        hosts = [re.split("[/?#]", filled, maxsplit=1)[0].rpartition("@")[2]]
    for host in filter(None, hosts):
        alone = ord(host) - _UNKNOWN if len(host) == 1 else -1
        if 0 <= alone < len(unknown):
            yield _in_words(unknown[alone], environment)
        else:
            words = with_names(host, unknown)
            yield words if words.isascii() else ascii(words)  # letters of other scripts look alike


def _in_words(reference: Reference, environment: Environment) -> str:
    scope, *names = reference
    if scope not in ("env", "secrets"):
        return f"the host in {templates.as_template(reference)}"
    name = ".".join(names)
    if environment.is_of_process(name):
        return f"the host in the variable {name} of your environment"
    return f"the host in the variable {name}, which is not set"


@dataclass(frozen=True, slots=True, order=True)
class TrustRequirement:
    """One thing that a project needs trust for, and its position in the file."""

    file: str
    line: int
    column: int
    by: str
    """The declaration that needs it, such as `embedder 'mine'`."""
    wants: Wants
    what: str
    """The subject, such as `hooks:Audit, in hooks.py` or `the variable OPENAI_API_KEY`."""
    digest: str
    """Identifies what is demanded: the action, the subject, and the bytes of code."""
    stays: bool = False
    """Whether it adds no code, host or link: a variable that is only filled into a text."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {self.by} wants to {self.wants} {self.what}"


@dataclass(frozen=True, slots=True)
class TrustRequirements:
    """Everything that a project needs trust for."""

    root: FilePath
    """The project folder, with links resolved."""
    all: tuple[TrustRequirement, ...]
    """The demands, sorted by file and line."""
    modules: dict[str, Module]
    """The modules of the folder that the demands show, by name, as they were read."""


def read_demands(path: str | FilePath) -> TrustRequirements:
    """Return everything that the project at a path needs trust for.

    Args:
        path: Folder or file of the project; see `load_project`.

    Raises:
        ConfigurationError: The project is not valid or does not exist.
        UsageError: A module that the project names cannot be read.
    """
    return demands_of(load_project(path))


def demands_of(loaded: LoadedProject) -> TrustRequirements:
    """Return everything that a project needs trust for.

    Raises:
        UsageError: A module that the project names cannot be read.
    """
    modules: dict[str, Module] = {}
    requirements = {
        demand
        for top in _tops(loaded)
        for part in _parts(top)
        for demand in _Part(part, loaded, modules).demands()
    }
    requirements |= {_link(DATA_FOLDER, "write", to) for to in written_to(loaded.root, DATA_FOLDER)}
    if (elsewhere := leads_to(loaded.root, ".env")) is not None:
        requirements.add(_link(".env", "read", elsewhere))
    return TrustRequirements(loaded.root.resolve(), tuple(sorted(requirements)), modules)


def _link(name: str, wants: Wants, target: str) -> TrustRequirement:
    return _demand(Position(name, 0, 0), "the project", wants, f"{OUTSIDE}: {target}")


def _demand(
    at: Position, by: str, wants: Wants, what: str, *code: str, stays: bool = False
) -> TrustRequirement:
    identity = digest(wants, what, *code)
    return TrustRequirement(at.file, at.line, at.column, by, wants, what, identity, stays)


def _tops(loaded: LoadedProject) -> list[Declaration]:
    """Return the declarations of all files of a project, each of them once."""
    project = loaded.project.model_copy(update={"agents": [], "workflows": []})
    return [project, *loaded.agents.values(), *loaded.workflows.values()]


def _parts(top: Declaration) -> Iterator[dict[Path, Declaration]]:
    """Yield each part of a declaration that has a name of its own, with its settings, by path."""
    parts: dict[Path, dict[Path, Declaration]] = {}
    for inner, path in within(top):
        if inner.label != Declaration.label:
            parts[path] = {}
        around = (path[:end] for end in range(len(path), -1, -1))
        parts[next(above for above in around if above in parts)][path] = inner
    yield from parts.values()


def _program(declared: Declaration) -> list[str]:
    """Return the words of the command that a declaration runs, as written."""
    if not isinstance(declared, McpServerDeclaration) or declared.command is None:
        return []
    return [declared.command, *declared.args]


def _hash_of(file: FilePath) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


class _Part:
    """An embedder, a source or another part of a project, with its nested settings."""

    def __init__(
        self, part: dict[Path, Declaration], loaded: LoadedProject, modules: dict[str, Module]
    ) -> None:
        self._settings, self._modules = part, modules
        self._root, self._environment = loaded.root.resolve(), loaded.environment
        self._path, self._head = next(iter(part.items()))
        name = getattr(self._head, "id", None)
        self._by = self._head.label if name is None else f"{self._head.label} {name!r}"
        self._sends = self._head.label not in _SEND_NOTHING
        self._code = [str(code) for item in part.values() for _, code in code_named(item)]
        self._code += [shlex.join(words) for item in part.values() if (words := _program(item))]
        self._trusts = [(item, *need) for item in part.values() for need in item.needs_trust()]

    def demands(self) -> Iterator[TrustRequirement]:
        receivers: set[str] = set()
        for path, declared in self._settings.items():
            yield from self._runs(declared)
            for place, variable, subject in self._reads(declared):
                hosts = self._hosts(path)
                receivers |= set(hosts)
                to = f", and send it to {', '.join(hosts)}" if hosts else ""
                if not hosts and self._code:
                    to = f", and give it to {', '.join(self._code)}"
                if to or variable:
                    at = declared.position(*place)
                    yield _demand(at, self._by, "read", f"{subject}{to}", stays=not to)
        for declared, field, wants, what in self._trusts:
            at = declared.position(field)
            if what == OUTSIDE:
                for target in self._outside(declared, field, wants):
                    yield _demand(at, self._by, wants, f"{OUTSIDE}: {target}")
            elif wants != "send" and not mentions(what):
                yield _demand(at, self._by, wants, what)
        yield from self._addresses(receivers)

    def _runs(self, declared: Declaration) -> Iterator[TrustRequirement]:
        for place, named in code_named(declared):
            modules = modules_of_project(named, self._root, self._modules)
            files = {name: str(mod.file.relative_to(self._root)) for name, mod in modules.items()}
            main = files.pop(named.partition(":")[0], None)
            home = f"in {main}" if main else "from an installed package"
            others = f", with {', '.join(sorted(files.values()))}" if files else ""
            code = [
                field
                for name, module in sorted(modules.items())
                for field in (name, hashlib.sha256(module.source).hexdigest())
            ]
            at = declared.position(*place)
            yield _demand(at, self._by, "run", f"{named}, {home}{others}", *code)
        if _program(declared):
            yield self._starts(declared)
        if is_plugins(declared):
            what = f"the installed plugin {getattr(declared, declared.kind_key)!r}"
            yield _demand(declared.position(declared.kind_key), self._by, "run", what)

    def _starts(self, declared: Declaration) -> TrustRequirement:
        """Return the demand to run a command, with the bytes of the files that it names."""
        words = [str(filled_in(word, self._environment)[0]) for word in _program(declared)]
        files = {
            word: self._root / word
            for word in words
            if not leaves_project(word) and (self._root / word).is_file()
        }
        code = [*words, *(_hash_of(file) for file in files.values())]
        variables = [f"{name}={value}" for name, value in getattr(declared, "env", {}).items()]
        what = f"the command {shlex.join([*variables, *_program(declared)])}"
        others = f", with {', '.join(files)}" if files else ""
        at = declared.position("command")
        return _demand(at, self._by, "run", f"{what}{others}", *code)

    def _reads(self, declared: Declaration) -> Iterator[tuple[Path, bool, str]]:
        """Yield the place and the words of each variable in a declaration's templates, and of each
        `workflow.vars`, which may contain one."""
        written = [
            ((field, *path), text)
            for field in declared.templated
            for path, text in texts(getattr(declared, field))
        ]
        defaults = [((field,), what) for part, field, _, what in self._trusts if part is declared]
        for path, text in [*written, *defaults]:
            for reference in mentions(text):
                if reference[0] in ("env", "secrets"):
                    yield path, True, f"the variable {'.'.join(reference[1:])}"
                elif reference[:2] == _VARS and self._sends:
                    yield path, False, as_template(reference)

    def _hosts(self, path: Path) -> list[str]:
        """Return the hosts that receive the variables of the settings at a path.

        They are named next to these settings or below them, else further up.
        """
        if not self._sends:
            return []
        for end in range(len(path), len(self._path) - 1, -1):
            near = [setting for at, setting in self._settings.items() if at[:end] == path[:end]]
            if hosts := hosts_of(near, self._environment):
                return hosts
        usual = [what for _, _, wants, what in self._trusts if wants == "send"]
        return [] if self._code else usual

    def _outside(self, declared: Declaration, field: str, wants: Wants) -> Iterator[str]:
        written = getattr(declared, field)
        if written is None or field not in declared.model_fields_set:
            return
        path, unknown = filled_in(written, self._environment)
        written_as = with_names(path, unknown)
        if unknown:
            try:
                path = str(self._environment.fill(written))
            except (TemplateError, ConfigurationError):  # not set, so the path cannot be used
                return
        reached = (
            [*written_to(self._root, path)] if wants == "write" else [leads_to(self._root, path)]
        )
        outside = [place for place in reached if place is not None]
        if unknown and outside:  # the value of the variable is not for display
            yield written_as
        else:
            yield from outside

    def _addresses(self, receivers: set[str]) -> Iterator[TrustRequirement]:
        """Yield the hosts of a part that no variable was shown with, and the paths that settings of
        code contain."""
        free = [setting for setting in self._settings.values() if "config" in setting.templated]
        # A source without `config` reads public addresses, as everybody can.
        if self._sends and (self._head.label != "source" or free):
            for host in hosts_of(self._settings.values(), self._environment):
                if host not in receivers:
                    yield _demand(self._head.position(), self._by, "reach", host)
        for declared in free:
            for path, text in texts(getattr(declared, "config", None)):
                filled, _ = filled_in(text, self._environment)
                if "://" not in filled and leaves_project(filled):
                    at = declared.position("config", *path)
                    yield _demand(at, self._by, "use", f"{OUTSIDE}: {filled}")
