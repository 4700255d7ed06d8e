"""Loads a project from files or Python objects, and validates it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from lorebind_config.checks.flow import composites, flows
from lorebind_config.checks.named_code import code_problems
from lorebind_config.checks.references import dangling, duplicates
from lorebind_config.checks.task_checks import agents, task_problems
from lorebind_config.checks.template_checks import (
    injected_variables,
    passage_templates,
    project_templates,
    unset_variables,
    workflow_templates,
)
from lorebind_config.checks.vector_dbs import catalogs, dimensions, engines, searches, workers
from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.base import Declaration, locate
from lorebind_config.declarations.project import (
    RESOURCES,
    SECTIONS,
    ProjectDeclaration,
    ResourcesDeclaration,
)
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.errors import ConfigurationError, Problem, did_you_mean
from lorebind_config.project_files import PROJECT_FILE
from lorebind_config.reading.autoload import (
    KINDS,
    autoload_files,
    kind_of,
    names_all,
    workflow_files,
)
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.partial import partial
from lorebind_config.reading.problems import Finding, findings
from lorebind_config.reading.yaml_source import YamlSource
from lorebind_config.templates import Environment

D = TypeVar("D", bound=Declaration)


def load_project(
    path: str | Path,
    *,
    environ: Mapping[str, str] | None = None,
    texts: Mapping[Path, str] | None = None,
    need_variables: bool = False,
) -> LoadedProject:
    """Read and validate a project with all its files.

    Args:
        path: The project folder, or the project file.
        environ: Variables to use instead of those of the process.
        texts: Content to use instead of that of these files.
        need_variables: Whether a variable that is not set is a problem. Otherwise,
            `LoadedProject.unset` lists the missing variables, and parts that need them refuse to
            be created.

    Returns:
        The valid project.

    Raises:
        ConfigurationError: The project is not valid or does not exist. The error lists the
            problems of all files.
    """
    file = project_file(path)
    loading = _Loading(file.parent, file, environ, texts or {}, need_variables=need_variables)
    return loading.load(loading.read(file))


def build_project(
    data: Mapping[str, Any], *, root: Path, environ: Mapping[str, str] | None = None
) -> LoadedProject:
    """Build and validate a project from Python objects.

    Args:
        data: The content that the project file would have.
        root: The folder that relative paths in the data start from.
        environ: Variables to use instead of those of the process.

    Returns:
        The valid project.

    Raises:
        ConfigurationError: The project is not valid. The error lists every problem, located by its
            path in the data.
    """
    return _Loading(root.resolve(), None, environ, {}).load(YamlSource.from_data(data))


def project_file(path: str | Path) -> Path:
    """Return the absolute path of the project file; `path` is the file itself or its folder.

    Raises:
        ConfigurationError: The file does not exist.
    """
    path = Path(path)
    names_file = path.suffix in (".yaml", ".yml") and not path.is_dir()
    file = path if names_file or path.is_file() else path / PROJECT_FILE
    if not file.is_file():
        message = f"there is no project file in {file.parent}"
        problem = Problem(file.name, 0, 0, message, "create one with: lorebind init")
        raise ConfigurationError([problem])
    return file.parent.resolve() / file.name


class _Loading:
    """A project while it is loaded; collects the problems of all files."""

    def __init__(
        self,
        root: Path,
        file: Path | None,
        environ: Mapping[str, str] | None,
        texts: Mapping[Path, str],
        *,
        need_variables: bool = False,
    ) -> None:
        self.root = root
        self.file = file
        self.environment = Environment(root, environ)
        self.texts = texts
        self.need_variables = need_variables
        self.problems: list[Problem] = []
        self.unset: list[Problem] = []
        self.agents: list[AgentDeclaration] = []
        self.workflows: list[WorkflowDeclaration] = []
        self.resources: list[ResourcesDeclaration] = []

    def read(self, file: Path) -> YamlSource:
        if file in self.texts:
            return YamlSource.parse(self.texts[file], file.relative_to(self.root).as_posix())
        return YamlSource.read(file, self.root)

    def load(self, source: YamlSource) -> LoadedProject:
        project = self._declared(source, ProjectDeclaration)
        self.agents += project.agents
        self.workflows += [w for w in project.workflows if isinstance(w, WorkflowDeclaration)]
        self._further_files(project)
        project = self._with_resources(project)
        self._check(project)
        if self.need_variables:
            self.problems += self.unset
        if self.problems:
            raise ConfigurationError(self.problems)
        return LoadedProject(
            root=self.root,
            file=self.file,
            project=project,
            workflows={workflow.id: workflow for workflow in self.workflows},
            agents={agent.id: agent for agent in self.agents},
            environment=self.environment,
            unset=tuple(sorted(set(self.unset))),
        )

    def _declared(self, source: YamlSource, kind: type[D], readable: bool = True) -> D:
        """Return the declaration in a source; if it has problems, the valid parts of it.

        The problems of a source that is not readable have been reported already.
        """
        if not readable:
            return partial(kind, source)
        invalid: list[Finding] = []
        try:
            declaration = kind.model_validate(source.data)
        except ValidationError as error:
            invalid = findings(error, source, kind)
        else:
            if not source.problems:
                locate(declaration, source)
                return declaration
        self.problems += source.problems
        # The YAML reader has already reported what is wrong with doubtful values.
        self.problems += [problem for path, problem in invalid if path not in source.doubtful]
        return partial(kind, source, {path for path, _ in invalid})

    def _further_files(self, project: ProjectDeclaration) -> None:
        named, problems_found = workflow_files(self.root, project.workflows)
        self.problems += problems_found
        files, problems_found = autoload_files(self.root, project.autoload, self.file)
        self.problems += problems_found
        for file in named:
            self._file(file, "workflow")
        for file in files:
            if file not in named:
                self._file(file)
        if not names_all(project.autoload):  # files that were not found may declare anything
            self._anything()

    def _file(self, file: Path, kind: str | None = None) -> None:
        try:
            source, readable = self.read(file), True
        except ConfigurationError as error:
            self.problems += error.problems
            source, readable = YamlSource.read_start(file, self.root), False
        kind = kind or kind_of(source.data)
        if kind is None:
            self.problems += source.problems
            self.problems.append(_unsupported(source))
            self._anything()
        elif kind == "workflow":
            source = source if readable else YamlSource("", {})
            self.workflows.append(self._declared(source, WorkflowDeclaration, readable))
        elif kind == "agent":
            self.agents.append(self._declared(source, AgentDeclaration, readable))
            keys, fields = source.data.keys(), AgentDeclaration.model_fields.keys()
            if keys - fields and not keys & (fields - {"id", "description"}):
                message = "the file is read as an agent, because it has no key 'resource'"
                hint = f"write resource: and one of: {', '.join(KINDS)}"
                self.problems.append(source.problem((), message, hint))
        else:
            written = source.data.get("resource") or kind
            if readable and written != kind and ("resource",) not in source.doubtful:
                self.problems.append(_unsupported(source))
            nested = source.nested((RESOURCES[kind], 0), without=("resource",))
            self.resources.append(self._declared(nested, ResourcesDeclaration, readable))

    def _anything(self) -> None:
        """Add an unknown file, which may contain any declaration that seems to be missing."""
        self.agents.append(partial(AgentDeclaration, YamlSource("", {})))
        self.workflows.append(partial(WorkflowDeclaration, YamlSource("", {})))
        for section in SECTIONS:
            self.resources.append(partial(ResourcesDeclaration, YamlSource("", {section: [{}]})))

    def _with_resources(self, project: ProjectDeclaration) -> ProjectDeclaration:
        """Return the project with the resources of other files after its own."""
        lists = {
            section: [resource for some in self.resources for resource in getattr(some, section)]
            for section in SECTIONS
        }
        return project.model_copy(
            update={
                section: [*getattr(project, section), *more]
                for section, more in lists.items()
                if more
            }
        )

    def _check(self, project: ProjectDeclaration) -> None:
        """Run the checks that need all files."""
        self.problems += duplicates(project, self.agents, self.workflows)
        self.problems += dangling(project, self.agents, self.workflows)
        self.problems += composites(self.workflows)
        self.problems += flows(self.workflows)
        everywhere = [*self.agents, *(a for w in self.workflows for a in w.agents)]
        self.problems += agents(everywhere, project.models)
        self.problems += dimensions(project, self.workflows)
        self.problems += searches(project, self.agents, self.workflows)
        self.problems += catalogs(project)
        alone = project.model_copy(update={"agents": [], "workflows": []})
        for declaration in (alone, *self.agents):
            self.problems += project_templates(declaration)
            self.unset += unset_variables(declaration, self.environment)
            self.problems += passage_templates(declaration, self.root)
            self.problems += code_problems(declaration, self.root)
        for workflow in self.workflows:
            self.problems += passage_templates(workflow, self.root)
            self.problems += code_problems(workflow, self.root)
            injected = injected_variables(project, self.agents, workflow)
            self.problems += workflow_templates(workflow, injected)
            self.problems += task_problems(workflow, injected)
            self.unset += unset_variables(workflow, self.environment)
        if not self.problems:  # it needs the values of complete declarations
            self.problems += engines(project)
            self.problems += workers(project)


def _unsupported(source: YamlSource) -> Problem:
    word = str(source.data["resource"])
    hint = did_you_mean(word, KINDS)
    return source.problem(("resource",), f"resource {word!r} is not supported", hint)
