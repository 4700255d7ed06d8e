"""Reads and validates the configuration of a project, from YAML files or Python objects."""

from lorebind_knowledge.configuration.applying import Applied, apply_resources
from lorebind_knowledge.configuration.demands import (
    TrustRequirement,
    TrustRequirements,
    demands_of,
    read_demands,
)
from lorebind_knowledge.configuration.editing import as_yaml
from lorebind_knowledge.configuration.environment import Environment
from lorebind_knowledge.configuration.exporting import export_resources
from lorebind_knowledge.configuration.loaded import LoadedProject
from lorebind_knowledge.configuration.loading import PROJECT_FILE, build_project, load_project
from lorebind_knowledge.configuration.problems import problems
from lorebind_knowledge.configuration.templates import (
    Reference,
    TemplateError,
    fill,
    injected_variable,
    references,
)
from lorebind_knowledge.configuration.yaml_source import YamlSource

__all__ = [
    "PROJECT_FILE",
    "Applied",
    "Environment",
    "LoadedProject",
    "Reference",
    "TemplateError",
    "TrustRequirement",
    "TrustRequirements",
    "YamlSource",
    "apply_resources",
    "as_yaml",
    "build_project",
    "demands_of",
    "export_resources",
    "fill",
    "injected_variable",
    "load_project",
    "problems",
    "read_demands",
    "references",
]
