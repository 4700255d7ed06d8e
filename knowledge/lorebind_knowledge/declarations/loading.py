"""From files, or Python objects, to a project that is known to be valid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from lorebind_knowledge.declarations.agents import AgentDeclaration
from lorebind_knowledge.declarations.autoload import autoload_files, kind_of
from lorebind_knowledge.declarations.base import Declaration, locate
from lorebind_knowledge.declarations.environment import Environment
from lorebind_knowledge.declarations.loaded import LoadedProject
from lorebind_knowledge.declarations.problems import problems
from lorebind_knowledge.declarations.project import AutoloadDeclaration, ProjectDeclaration
from lorebind_knowledge.declarations.references import dangling, duplicates
from lorebind_knowledge.declarations.scopes import project_templates, workflow_templates
from lorebind_knowledge.declarations.workflows import WorkflowDeclaration
from lorebind_knowledge.declarations.yaml_source import YamlSource
from lorebind_knowledge.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT_FILE = "lorebind.yaml"

D = TypeVar("D", bound=Declaration)


def load_project(path: str | Path, *, environ: Mapping[str, str] | None = None) -> LoadedProject:
    """Read a project: its folder, or its file, and all files that it autoloads.

    `environ` stands in for the variables of the process.

    Raises:
        ConfigurationError: with every problem of all files, or when there is no project.
    """
    file = _project_file(Path(path))
    source = YamlSource.read(file, file.parent)
    return _Loading(file.parent, file, environ).load(source)


def build_project(
    data: Mapping[str, Any], *, root: Path, environ: Mapping[str, str] | None = None
) -> LoadedProject:
    """The same declarations as Python objects; paths in them are relative to the folder `root`.

    Raises:
        ConfigurationError: with every problem; places are given as paths into the data.
    """
    return _Loading(root.resolve(), None, environ).load(YamlSource.from_data(data))


def _project_file(path: Path) -> Path:
    names_file = path.suffix in (".yaml", ".yml") and not path.is_dir()
    file = path if names_file or path.is_file() else path / PROJECT_FILE
    if not file.is_file():
        message = f"there is no project file in {file.parent}"
        problem = Problem(file.name, 0, 0, message, "create one with: lorebind init")
        raise ConfigurationError([problem])
    return file.parent.resolve() / file.name


class _Loading:
    """One project on its way in; gathers the problems of all files."""

    def __init__(self, root: Path, file: Path | None, environ: Mapping[str, str] | None) -> None:
        self.root = root
        self.file = file
        self.environment = Environment(root, environ)
        self.problems: list[Problem] = []
        self.agents: list[AgentDeclaration] = []
        self.workflows: list[WorkflowDeclaration] = []
        self.unread_agents: set[str] = set()

    def load(self, source: YamlSource) -> LoadedProject:
        project = self._validated(source, ProjectDeclaration)
        if project is not None:
            self.agents += project.agents
            self.workflows += project.workflows
        self._autoload(project.autoload if project else self._autoload_of(source))
        self._check(project)
        if project is None or self.problems:
            raise ConfigurationError(self.problems)
        return LoadedProject(
            root=self.root,
            file=self.file,
            project=project,
            workflows={workflow.id: workflow for workflow in self.workflows},
            agents={agent.id: agent for agent in self.agents},
            environment=self.environment,
        )

    def _validated(self, source: YamlSource, kind: type[D]) -> D | None:
        try:
            declaration = kind.model_validate(source.data)
        except ValidationError as error:
            self.problems += problems(error, source, kind)
            return None
        locate(declaration, source)
        return declaration

    def _autoload_of(self, source: YamlSource) -> AutoloadDeclaration:
        """The `autoload` of a project that has other problems, so that its files are read too."""
        try:
            autoload = AutoloadDeclaration.model_validate(source.data.get("autoload", {}))
        except ValidationError:
            return AutoloadDeclaration()
        locate(autoload, source, ("autoload",))
        return autoload

    def _autoload(self, autoload: AutoloadDeclaration) -> None:
        files, problems_found = autoload_files(self.root, autoload, self.file)
        self.problems += problems_found
        for file in files:
            try:
                source = YamlSource.read(file, self.root)
            except ConfigurationError as error:
                self.problems += error.problems
                self.unread_agents.add(file.stem)
                continue
            declaration = self._validated(source, kind_of(source.data))
            if isinstance(declaration, AgentDeclaration):
                self.agents.append(declaration)
            elif isinstance(declaration, WorkflowDeclaration):
                self.workflows.append(declaration)
            else:
                self.unread_agents.add(str(source.data.get("id")))

    def _check(self, project: ProjectDeclaration | None) -> None:
        """What only all files together can tell. What a broken file declares is not missed."""
        self.problems += duplicates(project, self.agents, self.workflows)
        if project is not None:
            found = dangling(project, self.agents, self.workflows, self.unread_agents)
            self.problems += found
        try:
            if project is not None:
                alone = project.model_copy(update={"agents": [], "workflows": []})
                self.problems += project_templates(alone, self.environment)
            for agent in self.agents:
                self.problems += project_templates(agent, self.environment)
            for workflow in self.workflows:
                self.problems += workflow_templates(workflow, self.environment)
        except ConfigurationError as error:  # .env cannot be read
            self.problems += error.problems
