"""From files, or Python objects, to a project that is known to be valid."""

from lorebind_knowledge.configuration.environment import Environment
from lorebind_knowledge.configuration.loaded import LoadedProject
from lorebind_knowledge.configuration.loading import PROJECT_FILE, build_project, load_project
from lorebind_knowledge.configuration.problems import problems
from lorebind_knowledge.configuration.templates import TemplateError, references, resolve
from lorebind_knowledge.configuration.yaml_source import YamlSource

__all__ = [
    "PROJECT_FILE",
    "Environment",
    "LoadedProject",
    "TemplateError",
    "YamlSource",
    "build_project",
    "load_project",
    "problems",
    "references",
    "resolve",
]
